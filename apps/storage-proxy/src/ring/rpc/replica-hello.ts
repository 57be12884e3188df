import { checkProtocol, RING_PROTOCOL } from "@concord/adapter-ring";
import type { ReplicaService } from "@concord/protos-storage";
import type { KeyValue } from "@concord/ports";
import type { Handler } from "@concord/rpc";
import { isTimestampUs, toConcordError, type Log } from "@concord/runtime";
import type { SharedClock } from "../../backend-definition.ts";
import { knowsPeer, peerKnown } from "../formation/marker.ts";
import { malformed } from "@concord/rows-wire";

export interface HelloOptions {
  readonly node: string;
  readonly members: readonly string[];
  /** The store's own writes of Hello go beside the engine: no step loads them. */
  readonly store: KeyValue;
  readonly formed: () => boolean;
  /** Told before the caller is answered. */
  readonly heardOf: (node: string, incarnation: string) => void;
  /** Write clock of this node: each node draws timestamps above those that the other has drawn. */
  readonly writeClock: SharedClock;
  readonly log: Log;
}

/** Who we are, and whether we remember the caller as part of the ring (TXR4). Answers while the node starts. */
export function helloHandler(options: HelloOptions): Handler<ReplicaService, "Hello"> {
  /** By peer: the version that it was refused for last. It asks again and again, and the log says so once. */
  const refused = new Map<string, number>();
  return async (request) => {
    const { node, members, store, writeClock, log } = options;
    const isPeer = members.includes(request.node) && request.node !== node;
    try {
      checkProtocol(request.node, request.protocol, node);
    } catch (thrown) {
      if (isPeer && refused.get(request.node) !== request.protocol) {
        refused.set(request.node, request.protocol);
        log.error("a peer was refused at the handshake", { peer: request.node, reason: toConcordError(thrown).message });
      }
      throw thrown;
    }
    if (!isPeer) throw malformed("the caller is no peer in this ring");
    refused.delete(request.node);
    const sameRing = request.members.length === members.length && members.every((member, at) => request.members[at] === member);
    options.heardOf(request.node, request.incarnation);
    if (!isTimestampUs(request.writeClockUs)) throw malformed("the caller's write clock is no timestamp");
    writeClock.saw(request.writeClockUs);
    const knowsCaller = await knowsPeer(store, request.node);
    // Remembered before it is answered: the caller serves from then on.
    if (request.formed && sameRing && !knowsCaller) await store.batch([peerKnown(request.node)], { sync: true });
    return { node, formed: options.formed(), members, knowsCaller, protocol: RING_PROTOCOL, writeClockUs: writeClock.markUs };
  };
}
