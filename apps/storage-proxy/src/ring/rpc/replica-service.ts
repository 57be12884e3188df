import { checkProtocol, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import { ReplicaService } from "@concord/protos-storage";
import type { KeyValue } from "@concord/ports";
import type { HandlerContext, Role, Service } from "@concord/rpc";
import { define, type DefineOptions } from "../../rpc/define.ts";
import type { SharedClock } from "../../backend-definition.ts";
import type { RingBackend, RingSource } from "../ring-backend.ts";
import type { RingNode } from "../ring-node.ts";
import type { RingSpace } from "../ring-space.ts";
import { batchLogPutHandler, batchLogRemoveHandler } from "./replica-batch-log.ts";
import { copyHandler } from "./replica-copy.ts";
import { helloHandler } from "./replica-hello.ts";
import { logCatchUpHandler, logRaiseHandler, logReadHandler, logStateHandler, logTrimHandler, replicateHandler } from "./replica-log.ts";
import { readPartHandler } from "./replica-part.ts";
import { repairRowsHandler, repairSumsHandler, tombstonesHandler } from "./replica-repair.ts";
import { applyRowsHandler, readGroupHandler, readRowRangeHandler, readRowsHandler } from "./replica-rows.ts";

export interface ReplicaServiceOptions extends DefineOptions {
  readonly name: string;
  readonly members: readonly string[];
  readonly store: KeyValue;
  readonly backend: RingBackend;
  readonly space: RingSpace;
  readonly writeClock: SharedClock;
}

const PEER: readonly Role[] = ["peer"];

/**
 * Serves while the node starts: peers need Hello to form the ring, and Space is of the disk. Copy, ReadPart and
 * the LogRead of a recovering peer are answered once its logs are open, every other call once it is part of the ring: STARTING before (I1).
 */
export function replicaService(options: ReplicaServiceOptions): Service {
  const { name, members, store, backend, space, writeClock } = options;
  const { log } = options.environment;
  const node = (): RingNode => backend.node();
  const source = (): RingSource => backend.source();
  const rowSource = (): RingSource => backend.rowSource();
  const heardOf = (peer: string, incarnation: string): void => backend.heardOf(peer, incarnation);
  return define(options, ReplicaService, {
    Hello: { roles: PEER, handler: helloHandler({ node: name, members, store, formed: () => backend.ready, heardOf, writeClock, log }) },
    Space: ofOurVersion(() => ({ low: space.isLow })),
    Copy: ofOurVersion(copyHandler(source, rowSource, store)),
    ReadPart: ofOurVersion(readPartHandler(rowSource, options.environment.checksum)),
    ApplyRows: ofOurVersion(applyRowsHandler(node)),
    ReadRows: ofOurVersion(readRowsHandler(node)),
    ReadRowRange: ofOurVersion(readRowRangeHandler(node)),
    ReadGroup: ofOurVersion(readGroupHandler(node)),
    LogRaise: ofOurVersion(logRaiseHandler(node)),
    Replicate: ofOurVersion(replicateHandler(node)),
    LogState: ofOurVersion(logStateHandler(node)),
    LogRead: ofOurVersion(logReadHandler(node, source)),
    LogTrim: ofOurVersion(logTrimHandler(node)),
    LogCatchUp: ofOurVersion(logCatchUpHandler(node)),
    RepairSums: ofOurVersion(repairSumsHandler(node)),
    RepairRows: ofOurVersion(repairRowsHandler(node)),
    Tombstones: ofOurVersion(tombstonesHandler(node)),
    BatchLogPut: ofOurVersion(batchLogPutHandler(node)),
    BatchLogRemove: ofOurVersion(batchLogRemoveHandler(node)),
  });
}

/** A call of peers, refused when the caller has another version: a node that is formed starts without a Hello of ours. */
function ofOurVersion<Request, Answer>(
  handler: (request: Request, context: HandlerContext) => Answer,
): {
  readonly roles: readonly Role[];
  readonly handler: (request: Request, context: HandlerContext) => Answer;
} {
  const checked = (request: Request, context: HandlerContext): Answer => {
    checkProtocol("the caller", Number(context.metadata[RING_PROTOCOL_KEY] ?? 0), "the node that answers");
    return handler(request, context);
  };
  return { roles: PEER, handler: checked };
}
