import type { MemberLists, Owners } from "@concord/ownership";
import type { MessageLog } from "@concord/ports";
import type { Environment } from "@concord/runtime";
import type { Ingest } from "./ingest/ingest.ts";
import type { SourceRules } from "./ingest/source-rules.ts";
import type { Partitions } from "./partitions/partitions.ts";
import type { WorkerPeers } from "./partitions/peers.ts";
import type { WorkerList, WorkerLists } from "./store/worker-list.ts";

/** The workers that share the log, as this one is one of them. */
export interface SharedList {
  readonly lists: MemberLists<WorkerList>;
  readonly owners: Owners;
  /** undefined: the list never changes. */
  readonly stored: WorkerLists | undefined;
}

/** What the handlers share. What is a function exists once the store is open: STARTING before. */
export interface Context {
  readonly environment: Environment;
  readonly peers: WorkerPeers;
  readonly sources: SourceRules;
  /** Of a worker that shares its log. */
  readonly list: () => SharedList;
  readonly log: () => MessageLog;
  readonly partitions: () => Partitions;
  readonly ingest: () => Ingest;
}
