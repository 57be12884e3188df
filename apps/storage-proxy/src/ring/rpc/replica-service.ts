import type { KeyValue } from "@concord/ports";
import type { Role, Service } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { StorageProxyConfig } from "../../config.ts";
import type { Parts } from "../../node-parts.ts";
import { define, type DefineOptions } from "../../rpc/define.ts";
import type { Batches } from "../batches.ts";
import { batchLogPutHandler, batchLogRemoveHandler } from "./replica-batch-log.ts";
import { copyHandler } from "./replica-copy.ts";
import { helloHandler } from "./replica-hello.ts";
import { logAppendHandler, logRaiseHandler, logReadHandler, logStateHandler, logTrimHandler } from "./replica-log.ts";
import { applyRowsHandler, readRowRangeHandler, readRowsHandler } from "./replica-rows.ts";

export interface ReplicaServiceOptions extends DefineOptions {
  readonly config: StorageProxyConfig;
  readonly members: readonly string[];
  readonly store: KeyValue;
  readonly parts: Parts;
}

const PEER: readonly Role[] = ["peer"];

/** Serves while the node starts: peers need Hello to form the ring. Every other handler asks for the parts first. */
export function replicaService(options: ReplicaServiceOptions): Service {
  const { config, members, store, parts } = options;
  const batches = (): Batches => parts().batches;
  const formed = (): boolean => {
    try {
      return parts().config === config;
    } catch (thrown) {
      if (thrown instanceof ConcordError) return false;
      throw thrown;
    }
  };
  return define(options, "concord.storage.v1.ReplicaService", {
    Hello: { roles: PEER, handler: helloHandler({ node: config.nodeName, members, store, formed }) },
    Copy: { roles: PEER, handler: copyHandler(parts, store) },
    ApplyRows: { roles: PEER, handler: applyRowsHandler(parts) },
    ReadRows: { roles: PEER, handler: readRowsHandler(parts) },
    ReadRowRange: { roles: PEER, handler: readRowRangeHandler(parts) },
    LogRaise: { roles: PEER, handler: logRaiseHandler(parts) },
    LogAppend: { roles: PEER, handler: logAppendHandler(parts) },
    LogState: { roles: PEER, handler: logStateHandler(parts) },
    LogRead: { roles: PEER, handler: logReadHandler(parts) },
    LogTrim: { roles: PEER, handler: logTrimHandler(parts) },
    BatchLogPut: { roles: PEER, handler: batchLogPutHandler(parts, batches) },
    BatchLogRemove: { roles: PEER, handler: batchLogRemoveHandler(parts, batches) },
  });
}
