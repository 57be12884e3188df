import type { ObjectStore } from "@concord/objects";
import type { HttpRequest, HttpResponse, Log, Metrics, SpaceGuard } from "@concord/runtime";
import type { Fields, Verified } from "@concord/s3";
import type { TransferBudget } from "./budget.ts";

/** The context of every operation. */
export interface Context {
  readonly store: ObjectStore;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly uploads: TransferBudget;
  readonly downloads: TransferBudget;
  /** New data is admitted by it; reads, deletes and background work never ask. */
  readonly space: SpaceGuard;
  readonly region: string;
  readonly partBytesMax: number;
  /** The scheme of returned locations. */
  readonly scheme: "http" | "https";
}

/** An admitted request: the caller is authenticated and owns the bucket. */
export interface S3Call {
  readonly requestId: string;
  readonly request: HttpRequest;
  readonly bucket: string;
  readonly key: string;
  readonly query: Fields;
  /** Names in lower case; what was presigned into the query is here too. */
  readonly headers: Fields;
  readonly tenant: string;
  readonly verified: Verified;
}

export type Operation = (call: S3Call, context: Context) => Promise<HttpResponse>;
