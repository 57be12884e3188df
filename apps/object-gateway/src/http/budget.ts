// How many uploads may run at once and how much memory their bodies may take; requests over the limit get SlowDown immediately.
import { assert, type Metrics } from "@concord/runtime";
import { S3Error } from "@concord/s3";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";

export interface UploadBudgetOptions {
  readonly uploadsMax: number;
  readonly bytesMax: number;
  readonly metrics: Metrics;
}

export class UploadBudget {
  readonly #options: UploadBudgetOptions;
  #uploads = 0;
  #bytes = 0;

  constructor(options: UploadBudgetOptions) {
    this.#options = options;
  }

  get uploadsInFlight(): number {
    return this.#uploads;
  }

  /** SlowDown when there is no room. The body is read in chunks, so a long one takes no more than the share of one upload. */
  async during<Result>(lengthBytes: number, action: () => Promise<Result>): Promise<Result> {
    const bytes = Math.min(lengthBytes, UPLOAD_SHARE_BYTES);
    const { uploadsMax, bytesMax, metrics } = this.#options;
    if (this.#uploads >= uploadsMax || this.#bytes + bytes > bytesMax) throw new S3Error("SlowDown", undefined, { retryAfterSeconds: 1 });
    this.#uploads += 1;
    this.#bytes += bytes;
    metrics.gauge("s3_uploads_in_flight", this.#uploads);
    try {
      return await action();
    } finally {
      this.#uploads -= 1;
      this.#bytes -= bytes;
      assert(this.#uploads >= 0 && this.#bytes >= 0, "an upload is given back once");
      metrics.gauge("s3_uploads_in_flight", this.#uploads);
    }
  }
}
