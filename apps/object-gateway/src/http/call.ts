import type { BucketSettings, EventTarget, JudgeObject, ObjectStore } from "@concord/objects";
import type { MessageSink } from "@concord/ports";
import type { DigestThread, HttpRequest, HttpResponse, Log, Metrics, SpaceGuard, Writes } from "@concord/runtime";
import type { BucketAccess, Caller, ConditionFacts, Fields, Received } from "@concord/s3";
import type { AccessReader } from "./access.ts";
import type { TransferBudget } from "./budget.ts";
import type { ByteRates } from "./byte-rates.ts";
import type { KnownKeys } from "./encryption.ts";
import type { Quotas } from "./quotas.ts";
import type { RequestRates } from "./request-rates.ts";

/** The context of every operation. */
export interface Context {
  readonly store: ObjectStore;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly uploads: TransferBudget;
  readonly downloads: TransferBudget;
  readonly rates: RequestRates;
  /** Bytes of objects that clients send. */
  readonly receiving: ByteRates;
  /** Bytes of objects that clients get. */
  readonly sending: ByteRates;
  /** New data is within its owner's quota; reads, deletes and background work never ask. */
  readonly quotas: Quotas;
  /** New data is admitted by it; reads, deletes and background work never ask. */
  readonly space: SpaceGuard;
  readonly writes: Writes;
  readonly region: string;
  readonly partBytesMax: number;
  /** Hashes long bodies; the main thread does when there is none. */
  readonly digestThread?: DigestThread | undefined;
  /** The scheme of returned locations. */
  readonly scheme: "http" | "https";
  readonly access: AccessReader;
  /** Length of a day of lifecycle rules. */
  readonly lifecycleDayMs: number;
  /** Where events go; undefined: the tenant has no such target. */
  readonly eventSink: (to: EventTarget) => MessageSink | undefined;
  /** Of server side encryption. */
  readonly keys: KnownKeys;
}

/** An admitted request: the caller may do what the operation is (actions.ts). */
export interface S3Call {
  readonly requestId: string;
  readonly request: HttpRequest;
  readonly bucket: string;
  readonly key: string;
  readonly query: Fields;
  /** Names in lower case; what was presigned into the query is here too. */
  readonly headers: Fields;
  readonly caller: Caller;
  /** Whose share of the transfers it uses: the caller's, or for an anonymous one the bucket owner's. */
  readonly tenant: string;
  /** Of the bucket; without one the caller owns what it asks for. */
  readonly access: BucketAccess;
  /** Of the bucket, as they were when the request was judged; undefined: it makes the bucket, or is about none. */
  readonly settings: BucketSettings | undefined;
  /** For the store, where the object decides what the caller may do: every operation that `actions.ts` says is judged gives it. */
  readonly judge: JudgeObject | undefined;
  /** What conditions of policies may ask. */
  readonly facts: () => ConditionFacts;
  readonly verified: Received;
}

export type Operation = (call: S3Call, context: Context) => Promise<HttpResponse>;
