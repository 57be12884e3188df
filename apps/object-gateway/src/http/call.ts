import type { ObjectStore } from "@concord/objects";
import type { HttpRequest, HttpResponse, Log, Metrics } from "@concord/runtime";
import type { Fields, Verified } from "@concord/s3";
import type { UploadBudget } from "./budget.ts";

/** What the operations work with. */
export interface Context {
  readonly store: ObjectStore;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly budget: UploadBudget;
  readonly region: string;
  readonly partBytesMax: number;
  /** What locations begin with. */
  readonly scheme: "http" | "https";
}

/** A request that was let in: who asks is known, and what is asked for belongs to them. */
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
