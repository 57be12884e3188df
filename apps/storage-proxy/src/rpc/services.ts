import type { Role, Service } from "@concord/rpc";
import type { Batches } from "../ring/batches.ts";
import { replicaService, type ReplicaServiceOptions } from "../ring/rpc/replica-service.ts";
import { applyHandler } from "./apply.ts";
import { listDeadLettersHandler, redriveDeadLetterHandler } from "./batch-dead-letters.ts";
import { executeBatchHandler } from "./batch-execute.ts";
import { listPendingBatchesHandler } from "./batch-list-pending.ts";
import { replayBatchesHandler } from "./batch-replay.ts";
import { createTablesHandler } from "./create-tables.ts";
import { define } from "./define.ts";
import { getSchemaHandler } from "./get-schema.ts";
import { appendHandler } from "./group-log-append.ts";
import { raiseHandler } from "./group-log-raise.ts";
import { statusHandler } from "./group-log-status.ts";
import { trimHandler } from "./group-log-trim.ts";
import { verifyHandler } from "./group-log-verify.ts";
import { queryHandler } from "./query.ts";
import { readHandler } from "./read.ts";
import { readRangeHandler } from "./read-range.ts";
import { writeHandler } from "./write.ts";

export type ServicesOptions = ReplicaServiceOptions;

const EVERYBODY: readonly Role[] = ["client", "coordinator", "peer", "operator"];
const CALLERS: readonly Role[] = ["client", "coordinator", "operator"];
const OPERATORS: readonly Role[] = ["coordinator", "peer", "operator"];
const COORDINATOR: readonly Role[] = ["coordinator"];

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
