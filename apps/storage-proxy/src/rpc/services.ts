import type { ServiceContract } from "@concord/protos";
import { BatchService, GroupLogService, ObjectMetadataService, ReplicaService, RowsService, SchemaService } from "@concord/protos-storage";
import type { Role, Service } from "@concord/rpc";
import type { StorageProxyConfig } from "../config.ts";
import type { Serving } from "../context.ts";
import { applyHandler } from "./apply.ts";
import { listDeadLettersHandler, redriveDeadLetterHandler } from "./batch-dead-letters.ts";
import { executeBatchHandler } from "./batch-execute.ts";
import { listPendingBatchesHandler } from "./batch-list-pending.ts";
import { replayBatchesHandler } from "./batch-replay.ts";
import { createTablesHandler } from "./create-tables.ts";
import { define, type DefineOptions } from "./define.ts";
import { getSchemaHandler } from "./get-schema.ts";
import { admitHandler } from "./group-log-admit.ts";
import { appendHandler } from "./group-log-append.ts";
import { raiseHandler } from "./group-log-raise.ts";
import { statusHandler } from "./group-log-status.ts";
import { trimHandler } from "./group-log-trim.ts";
import { verifyHandler } from "./group-log-verify.ts";
import { objectMetadataHandlers } from "./object-metadata.ts";
import { queryHandler } from "./query.ts";
import { readHandler } from "./read.ts";
import { readRangeHandler } from "./read-range.ts";
import { writeHandler } from "./write.ts";

export interface ServicesOptions extends DefineOptions {
  readonly serving: Serving;
}

/** What a storage-proxy serves: `defineServices`, and what nodes of a ring ask each other. */
export const contractsOf = ({ backend }: StorageProxyConfig): readonly ServiceContract<object>[] => [
  RowsService,
  SchemaService,
  GroupLogService,
  BatchService,
  ObjectMetadataService,
  ...(backend === "ring" ? [ReplicaService] : []),
];

const ANY_ROLE: readonly Role[] = ["client", "coordinator", "peer", "operator"];
const CALLERS: readonly Role[] = ["client", "coordinator", "operator"];
const OPERATORS: readonly Role[] = ["coordinator", "peer", "operator"];
const COORDINATOR: readonly Role[] = ["coordinator"];

/** The services that a storage-proxy offers whatever its backend: who may call what. */
export function defineServices(options: ServicesOptions): readonly Service[] {
  return [rowsService(options), schemaService(options), groupLogService(options), batchService(options), objectMetadataService(options)];
}

function rowsService(options: ServicesOptions): Service {
  const { serving } = options;
  return define(options, RowsService, {
    Read: { roles: CALLERS, handler: readHandler(serving) },
    ReadRange: { roles: CALLERS, handler: readRangeHandler(serving) },
    Write: { roles: CALLERS, handler: writeHandler(serving) },
    Apply: { roles: COORDINATOR, handler: applyHandler(serving) },
    Query: { roles: CALLERS, handler: queryHandler(serving, options.writes) },
  });
}

function schemaService(options: ServicesOptions): Service {
  const { serving } = options;
  return define(options, SchemaService, {
    CreateTables: { roles: CALLERS, handler: createTablesHandler(serving) },
    GetSchema: { roles: ANY_ROLE, handler: getSchemaHandler(serving) },
  });
}

function groupLogService(options: ServicesOptions): Service {
  const { serving } = options;
  return define(options, GroupLogService, {
    Status: { roles: COORDINATOR, handler: statusHandler(serving) },
    Raise: { roles: COORDINATOR, handler: raiseHandler(serving) },
    Append: { roles: COORDINATOR, handler: appendHandler(serving) },
    Verify: { roles: COORDINATOR, handler: verifyHandler(serving) },
    Admit: { roles: COORDINATOR, handler: admitHandler(serving) },
    Trim: { roles: COORDINATOR, handler: trimHandler(serving) },
  });
}

function objectMetadataService(options: ServicesOptions): Service {
  const { ReadObjectRows, ReadObjectRange, ReadObjectCounters, CommitObjectRows } = objectMetadataHandlers(options.serving);
  return define(options, ObjectMetadataService, {
    ReadObjectRows: { roles: COORDINATOR, handler: ReadObjectRows },
    ReadObjectRange: { roles: COORDINATOR, handler: ReadObjectRange },
    ReadObjectCounters: { roles: COORDINATOR, handler: ReadObjectCounters },
    CommitObjectRows: { roles: COORDINATOR, handler: CommitObjectRows },
  });
}

function batchService(options: ServicesOptions): Service {
  const { serving } = options;
  return define(options, BatchService, {
    ExecuteBatch: { roles: CALLERS, handler: executeBatchHandler(serving) },
    ListPendingBatches: { roles: OPERATORS, handler: listPendingBatchesHandler(serving) },
    ReplayBatches: { roles: OPERATORS, handler: replayBatchesHandler(serving) },
    ListDeadLetters: { roles: OPERATORS, handler: listDeadLettersHandler(serving) },
    RedriveDeadLetter: { roles: OPERATORS, handler: redriveDeadLetterHandler(serving) },
  });
}
