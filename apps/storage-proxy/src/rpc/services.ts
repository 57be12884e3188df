import { loadService } from "@concord/protos";
import type { KeyValue } from "@concord/ports";
import { defineService, type Authenticator, type Role, type Service, type UnaryHandler } from "@concord/rpc";
import { ConcordError, type Environment } from "@concord/runtime";
import type { Batches } from "../batches.ts";
import type { StorageProxyConfig } from "../config.ts";
import type { Parts } from "../node-parts.ts";
import { applyHandler } from "./apply.ts";
import { listDeadLettersHandler, redriveDeadLetterHandler } from "./batch-dead-letters.ts";
import { executeBatchHandler } from "./batch-execute.ts";
import { listPendingBatchesHandler } from "./batch-list-pending.ts";
import { replayBatchesHandler } from "./batch-replay.ts";
import { createTablesHandler } from "./create-tables.ts";
import { getSchemaHandler } from "./get-schema.ts";
import { appendHandler } from "./group-log-append.ts";
import { raiseHandler } from "./group-log-raise.ts";
import { statusHandler } from "./group-log-status.ts";
import { trimHandler } from "./group-log-trim.ts";
import { verifyHandler } from "./group-log-verify.ts";
import { queryHandler } from "./query.ts";
import { readHandler } from "./read.ts";
import { readRangeHandler } from "./read-range.ts";
import { batchLogPutHandler, batchLogRemoveHandler } from "./replica-batch-log.ts";
import { copyHandler } from "./replica-copy.ts";
import { helloHandler } from "./replica-hello.ts";
import { logAppendHandler, logRaiseHandler, logReadHandler, logStateHandler, logTrimHandler } from "./replica-log.ts";
import { applyRowsHandler, readRowRangeHandler, readRowsHandler } from "./replica-rows.ts";
import { writeHandler } from "./write.ts";

export interface ServicesOptions {
  readonly config: StorageProxyConfig;
  readonly environment: Environment;
  readonly authenticator: Authenticator;
  readonly members: readonly string[];
  readonly store: KeyValue;
  readonly parts: Parts;
}

interface Method {
  readonly roles: readonly Role[];
  readonly handler: UnaryHandler;
}

const EVERYBODY: readonly Role[] = ["client", "coordinator", "peer", "operator"];
const CALLERS: readonly Role[] = ["client", "coordinator", "operator"];
const OPERATORS: readonly Role[] = ["coordinator", "peer", "operator"];
const COORDINATOR: readonly Role[] = ["coordinator"];
const PEER: readonly Role[] = ["peer"];

/** Every service of a storage-proxy: who may call what. */
export function defineServices(options: ServicesOptions): { readonly replica: Service; readonly all: readonly Service[] } {
  const replica = replicaService(options);
  return { replica, all: [rowsService(options), schemaService(options), groupLogService(options), batchService(options), replica] };
}

function rowsService(options: ServicesOptions): Service {
  const { parts } = options;
  return define(options, "concord.storage.v1.RowsService", {
    Read: { roles: CALLERS, handler: readHandler(parts) },
    ReadRange: { roles: CALLERS, handler: readRangeHandler(parts) },
    Write: { roles: CALLERS, handler: writeHandler(parts) },
    Apply: { roles: COORDINATOR, handler: applyHandler(parts) },
    Query: { roles: CALLERS, handler: queryHandler(parts) },
  });
}

function schemaService(options: ServicesOptions): Service {
  const { parts } = options;
  return define(options, "concord.storage.v1.SchemaService", {
    CreateTables: { roles: CALLERS, handler: createTablesHandler(parts) },
    GetSchema: { roles: EVERYBODY, handler: getSchemaHandler(parts) },
  });
}

function groupLogService(options: ServicesOptions): Service {
  const { parts } = options;
  return define(options, "concord.storage.v1.GroupLogService", {
    Status: { roles: COORDINATOR, handler: statusHandler(parts) },
    Raise: { roles: COORDINATOR, handler: raiseHandler(parts) },
    Append: { roles: COORDINATOR, handler: appendHandler(parts) },
    Verify: { roles: COORDINATOR, handler: verifyHandler(parts) },
    Trim: { roles: COORDINATOR, handler: trimHandler(parts) },
  });
}

function batchService(options: ServicesOptions): Service {
  const { parts } = options;
  const batches = (): Batches => parts().batches;
  return define(options, "concord.storage.v1.BatchService", {
    ExecuteBatch: { roles: CALLERS, handler: executeBatchHandler(parts, batches) },
    ListPendingBatches: { roles: EVERYBODY, handler: listPendingBatchesHandler(batches) },
    ReplayBatches: { roles: OPERATORS, handler: replayBatchesHandler(batches) },
    ListDeadLetters: { roles: EVERYBODY, handler: listDeadLettersHandler(batches) },
    RedriveDeadLetter: { roles: OPERATORS, handler: redriveDeadLetterHandler(batches) },
  });
}

/** Serves while the node starts: peers need Hello to form the ring. Every other handler asks for the parts first. */
function replicaService(options: ServicesOptions): Service {
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

function define(options: ServicesOptions, name: string, methods: Readonly<Record<string, Method>>): Service {
  const { clock, log, metrics } = options.environment;
  const loaded = loadService(name);
  const unary = Object.fromEntries(Object.entries(methods).map(([method, { handler }]) => [method, handler]));
  const roles = Object.fromEntries(Object.entries(methods).map(([method, one]) => [method, one.roles]));
  const session = loaded["Session"] === undefined ? {} : { session: "Session" };
  return defineService({ name, methods: loaded, unary, roles, ...session }, { clock, log, metrics, authenticator: options.authenticator });
}
