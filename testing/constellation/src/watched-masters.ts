// What the coordinators say of the groups' masters, with the time at which it was heard.
import { nodeClock } from "@concord/adapter-node-runtime";
import { TopologyService } from "@concord/protos-txn";
import { grpcTransport, openStream } from "@concord/rpc";
import { silentLog, silentMetrics, type Channel } from "@concord/runtime";

const REOPEN_MS = 50;

/** A coordinator's word about one group. */
export interface Said {
  /** performance.now() */
  readonly at: number;
  readonly by: string;
  readonly group: string;
  readonly master: string;
  /** It serves the group itself, under this epoch; 0 = it only expects the master to. */
  readonly epoch: bigint;
}

/** Follows the topology at all coordinators by the bare contract, and keeps what each said. */
export class WatchedMasters {
  readonly said: Said[] = [];
  readonly #channels: Channel[] = [];
  #isClosed = false;

  constructor(coordinators: readonly { readonly name: string; readonly address: string }[]) {
    const transport = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics });
    for (const { name, address } of coordinators) {
      const channel = transport.connect(address);
      this.#channels.push(channel);
      this.#watch(name, channel);
    }
  }

  /** Masters by group: of what was said the newest epoch. */
  masters(): ReadonlyMap<string, string> {
    const newest = new Map<string, Said>();
    for (const one of this.said) if (one.epoch > (newest.get(one.group)?.epoch ?? 0n)) newest.set(one.group, one);
    return new Map([...newest].map(([group, { master }]) => [group, master]));
  }

  close(): void {
    this.#isClosed = true;
    for (const channel of this.#channels) channel.close();
  }

  #watch(by: string, channel: Channel): void {
    if (this.#isClosed) return;
    const stream = openStream(channel, TopologyService.methods.WatchTopology, {});
    stream.onMessage(({ topology }) => {
      const at = performance.now();
      for (const { id, master, epoch } of topology!.groups) this.said.push({ at, by, group: id, master, epoch });
    });
    stream.onDrain(() => undefined);
    stream.onEnd(() => void setTimeout(() => this.#watch(by, channel), REOPEN_MS).unref());
    stream.send({});
  }
}
