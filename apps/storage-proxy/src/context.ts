import type { AtomicRows, Batches, GroupLog, LocalRows, ObjectMetadata, RowStore, StorageBackend } from "@concord/ports";
import { ConcordError, type Clock, type Environment, type Metrics, type Random } from "@concord/runtime";
import { PageTokens, RowGroups, SchemaCache } from "@concord/schema";
import type { StorageProxyConfig } from "./config.ts";
import type { WriteClock } from "./rows/write-clock.ts";

/** What handlers work with. Exists while the backend serves. */
export interface Context {
  readonly config: StorageProxyConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  readonly batches: Batches;
  readonly localRows: LocalRows | undefined;
  readonly atomicRows: AtomicRows | undefined;
  readonly rowGroups: RowGroups;
  readonly objectMetadata: ObjectMetadata | undefined;
  readonly schema: SchemaCache;
  readonly writeClock: WriteClock;
  readonly pageTokens: PageTokens;
  /** STORAGE_FULL, applied no, while there is too little space for new data. */
  readonly admit: () => Promise<void>;
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
  const { clock, random, metrics, log, checksum } = environment;
  const { rows, groupLog, batches, localRows, atomicRows, objectMetadata } = backend;
  const schema = new SchemaCache({ rows, timeoutMs: config.readTimeoutMs, log });
  const rowGroups = new RowGroups(rows, config.readTimeoutMs);
  const pageTokens = new PageTokens(checksum);
  const stores = { rows, groupLog, batches, localRows, atomicRows, objectMetadata };
  const admit = async (): Promise<void> => backend.admit?.();
  return { config, clock, random, metrics, ...stores, rowGroups, schema, writeClock, pageTokens, admit };
}

/** Rows of objects, where the backend changes them under conditions (OGD15); UNIMPLEMENTED where it does not. */
export function objectMetadataOf({ objectMetadata, config }: Context): ObjectMetadata {
  if (objectMetadata !== undefined) return objectMetadata;
  throw new ConcordError("UNIMPLEMENTED", `backend ${config.backend} has no rows of objects: keep them in transactions`);
}
