import type { EventTarget, ObjectStore } from "@concord/objects";
import type { MessageSink } from "@concord/ports";
import type { DigestThread, HttpResponse, Log, Metrics, SpaceGuard, Writes } from "@concord/runtime";
import type { AccessReader } from "./access.ts";
import type { TransferBudget } from "./budget.ts";
import type { ByteRates } from "./byte-rates.ts";
import type { S3Call } from "./call.ts";
import type { KnownKeys } from "./known-keys.ts";
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
  /** Sink of events; undefined: the tenant has no such target. */
  readonly eventSink: (to: EventTarget) => MessageSink | undefined;
  /** Keys of server side encryption. */
  readonly keys: KnownKeys;
}

export type Operation = (call: S3Call, context: Context) => Promise<HttpResponse>;
