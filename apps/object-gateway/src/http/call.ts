import type { BucketSettings, JudgeObject } from "@concord/objects";
import type { HttpRequest } from "@concord/runtime";
import type { BucketAccess, Caller, ConditionFacts, Fields, Received } from "@concord/s3";

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
