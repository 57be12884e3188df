import type { MessageLog } from "@concord/ports";
import type { Environment } from "@concord/runtime";
import type { Ingest } from "./ingest/ingest.ts";
import type { Partitions } from "./partitions/partitions.ts";
import type { WorkerPeers } from "./partitions/peers.ts";

/** What the handlers share. What is a function exists once the store is open: STARTING before. */
export interface Context {
  readonly environment: Environment;
  readonly peers: WorkerPeers;
  /** Names of the other workers of the log. */
  readonly others: readonly string[];
  readonly log: () => MessageLog;
  readonly partitions: () => Partitions;
  readonly ingest: () => Ingest;
}
