import type { Batches, GroupLog, LocalRows, RowStore, StorageBackend } from "@concord/ports";
import type { Clock, Environment, Random } from "@concord/runtime";
import { PageTokens, SchemaCache } from "@concord/schema";
import type { StorageProxyConfig } from "./config.ts";
import type { WriteClock } from "./rows/write-clock.ts";

/** What handlers work with. Exists while the backend serves. */
export interface Context {
  readonly config: StorageProxyConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  readonly batches: Batches;
  readonly localRows: LocalRows | undefined;
  readonly schema: SchemaCache;
  readonly writeClock: WriteClock;
  readonly pageTokens: PageTokens;
}

/** STARTING until the backend serves, DRAINING after it. */
export type Serving = () => Context;

export interface ContextOptions {
  readonly config: StorageProxyConfig;
  readonly environment: Environment;
  readonly backend: StorageBackend;
  readonly writeClock: WriteClock;
}

/** Of a backend that has started. */
export function createContext({ config, environment, backend, writeClock }: ContextOptions): Context {
  const { clock, random, log, checksum } = environment;
  const { rows, groupLog, batches, localRows } = backend;
  const schema = new SchemaCache({ rows, timeoutMs: config.readTimeoutMs, log });
  return { config, clock, random, rows, groupLog, batches, localRows, schema, writeClock, pageTokens: new PageTokens(checksum) };
}
