import type { ObjectData, ObjectMetadata } from "@concord/ports";
import type { Clock, Log, Metrics, Span, Tasks } from "@concord/runtime";
import type { GuidSource } from "@concord/snowflake";
import type { BucketCache } from "./bucket-cache.ts";
import type { BucketTurns } from "./bucket-turns.ts";
import type { EncryptionContext } from "./encryption/data-keys.ts";
import type { ObjectLimits } from "./limits.ts";
import type { Outbox } from "./events/outbox.ts";
import type { EventCause } from "./rows.ts";
import type { LockTime } from "./lock-time.ts";
import type { UnresolvedCommits, UploadJournal } from "./upload-journal.ts";

/** The context of every step of the store. */
export interface ObjectStoreContext {
  readonly metadata: ObjectMetadata;
  readonly data: ObjectData;
  readonly clock: Clock;
  /** Lists what runs in the background. */
  readonly tasks?: Tasks | undefined;
  readonly guids: GuidSource;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly failpoint: (name: string) => void;
  readonly limits: ObjectLimits;
  /** Names of blobs, and what is written down before their first byte. */
  readonly journal: UploadJournal;
  /** Unresolved commits whose request has ended. */
  readonly unresolved: UnresolvedCommits;
  /** Partitions of a new bucket. */
  readonly shards: number;
  readonly buckets: BucketCache;
  readonly turns: BucketTurns;
  /** By which locks of versions end. */
  readonly lockTime: LockTime;
  /** Absent: nothing can be encrypted, and what is cannot be read. */
  readonly encryption?: EncryptionContext;
  /** Of one request: the settings of a bucket by which it was judged; its writes there are refused when the bucket has newer ones (I17). */
  readonly judged?: JudgedSettings;
  /** What this gateway knows of events that wait. */
  readonly outbox: Outbox;
  /** Of one request: whose it is, for events. */
  readonly cause?: EventCause;
  /** Of one request: aborted when its client is gone. */
  readonly signal?: AbortSignal;
  /** Of one request, when it is traced. */
  readonly span?: Span;
}

export interface JudgedSettings {
  readonly bucket: string;
  /** 0: it had none. */
  readonly settings: bigint;
}
