import type { TopologyService } from "@concord/protos-txn";
import type { StreamHandlers } from "@concord/rpc";
import type { Context } from "../context.ts";
import { topologyOf } from "./get-topology.ts";

/** The topology at once and after each change, until the client ends its side (TX3, TXD13). A client that takes none gets none: only the newest waits. */
export function watchTopologyHandler(coordinator: Context): StreamHandlers<TopologyService>["WatchTopology"] {
  return async (stream, { signal }) => {
    const { groups, environment } = coordinator;
    // They say nothing. Without a listener the stream would keep them for one.
    stream.onMessage(() => undefined);
    let sent: string | undefined;
    while (!signal.aborted) {
      const changed = groups.changed();
      const topology = topologyOf(coordinator);
      const routes = topology.groups!.map(({ id, master, epoch }) => `${id} ${master} ${epoch}`);
      const said = [...routes, ...topology.coordinators!.map(({ name, address }) => `${name} ${address}`)].join();
      if (said !== sent) await stream.send({ topology });
      sent = said;
      await changedOrAborted(changed, signal);
      // All groups of a failed coordinator move in one turn or in a few: they go as one message.
      await new Promise<void>((resolve) => environment.clock.defer(resolve));
    }
  };
}

function changedOrAborted(changed: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      signal.removeEventListener("abort", done);
      resolve();
    };
    signal.addEventListener("abort", done, { once: true });
    void changed.then(done);
  });
}
