import { ReplicaService } from "@concord/protos-storage";
import type { KeyValue } from "@concord/ports";
import type { Role, Service } from "@concord/rpc";
import { define, type DefineOptions } from "../../rpc/define.ts";
import type { RingBackend } from "../ring-backend.ts";
import type { RingNode } from "../ring-node.ts";
import { batchLogPutHandler, batchLogRemoveHandler } from "./replica-batch-log.ts";
import { copyHandler } from "./replica-copy.ts";
import { helloHandler } from "./replica-hello.ts";
import { logAppendHandler, logRaiseHandler, logReadHandler, logStateHandler, logTrimHandler } from "./replica-log.ts";
import { applyRowsHandler, readRowRangeHandler, readRowsHandler } from "./replica-rows.ts";

export interface ReplicaServiceOptions extends DefineOptions {
  readonly name: string;
  readonly members: readonly string[];
  readonly store: KeyValue;
  readonly backend: RingBackend;
}

const PEER: readonly Role[] = ["peer"];

/** Serves while the node starts: peers need Hello to form the ring. Every other call is STARTING until it is part of the ring (I1). */
export function replicaService(options: ReplicaServiceOptions): Service {
  const { name, members, store, backend } = options;
  const node = (): RingNode => backend.node();
  return define(options, ReplicaService, {
    Hello: { roles: PEER, handler: helloHandler({ node: name, members, store, formed: () => backend.ready }) },
    Copy: { roles: PEER, handler: copyHandler(node, store) },
    ApplyRows: { roles: PEER, handler: applyRowsHandler(node) },
    ReadRows: { roles: PEER, handler: readRowsHandler(node) },
    ReadRowRange: { roles: PEER, handler: readRowRangeHandler(node) },
    LogRaise: { roles: PEER, handler: logRaiseHandler(node) },
    LogAppend: { roles: PEER, handler: logAppendHandler(node) },
    LogState: { roles: PEER, handler: logStateHandler(node) },
    LogRead: { roles: PEER, handler: logReadHandler(node) },
    LogTrim: { roles: PEER, handler: logTrimHandler(node) },
    BatchLogPut: { roles: PEER, handler: batchLogPutHandler(node) },
    BatchLogRemove: { roles: PEER, handler: batchLogRemoveHandler(node) },
  });
}
