// What the load of uploads in parts calls wrong, on a gateway of which one answer is wrong.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  ListObjectVersionsCommand,
  NoSuchUpload,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { newTally } from "../subject.ts";
import { LoggedBucket } from "./bucket.ts";
import { PartUploads } from "./part-uploads.ts";

type Defect = "none" | "another id" | "a version each time" | "nothing made" | "completed after an abort" | "forgotten" | "answers lost";

/** One upload after the other; what was completed is remembered. */
class Gateway {
  readonly versions: { Key: string; VersionId: string; ETag: string }[] = [];
  completions = 0;
  readonly #defect: Defect;
  #upload: "open" | "done" | "aborted" = "open";
  #part = "";

  constructor(defect: Defect) {
    this.#defect = defect;
  }

  async send(command: object): Promise<object> {
    const $metadata = { httpStatusCode: 200, requestId: "r" };
    if (command instanceof CreateMultipartUploadCommand) {
      this.#upload = "open";
      return { $metadata, UploadId: "u" };
    }
    if (command instanceof UploadPartCommand) {
      this.#part = createHash("md5")
        .update(command.input.Body as Uint8Array)
        .digest("hex");
      return { $metadata, ETag: this.#part };
    }
    if (command instanceof AbortMultipartUploadCommand) {
      this.#upload = "aborted";
      return { $metadata };
    }
    if (command instanceof ListObjectVersionsCommand) return { $metadata, Versions: this.versions };
    assert(command instanceof CompleteMultipartUploadCommand, "the load sends nothing else");
    return { $metadata, VersionId: this.#complete(command.input.Key!) };
  }

  #complete(Key: string): string {
    this.completions += 1;
    const isUnknown = (this.#upload === "aborted" && this.#defect !== "completed after an abort") || this.#isForgotten();
    if (isUnknown) throw new NoSuchUpload({ message: "none", $metadata: { httpStatusCode: 404, requestId: "r" } });
    const isNew = this.#upload !== "done" || this.#defect === "a version each time";
    const digest = createHash("md5").update(Buffer.from(this.#part, "hex")).digest("hex");
    const VersionId = isNew ? `v${this.versions.length + 1}` : this.versions.at(-1)!.VersionId;
    if (isNew) this.versions.push({ Key, VersionId, ETag: `"${digest}-1"` });
    this.#upload = "done";
    if (this.#defect === "answers lost" && this.completions === 1) throw new Error("the connection broke");
    return this.#defect === "another id" && this.completions === 2 ? "other" : VersionId;
  }

  #isForgotten(): boolean {
    return this.#defect === "nothing made" || (this.#defect === "forgotten" && this.#upload === "done");
  }
}

async function wrongOf(
  defect: Defect,
  change: "complete" | "abort",
): Promise<{ readonly wrong: readonly string[]; readonly kept: number }> {
  const s3 = new Gateway(defect) as unknown as S3Client;
  const bucket = new LoggedBucket("box", { s3, tally: newTally(), fateOf: () => "kept" });
  const uploads = new PartUploads(bucket, s3, "k");
  await uploads[change]().catch(() => uploads[change]());
  return { wrong: (await bucket.verify([])).wrong, kept: bucket.ledger.kept("k").length };
}

test("parts: completed, completed again, forgotten since, or an answer lost: one version, nothing wrong", async () => {
  for (const defect of ["none", "forgotten", "answers lost"] as const)
    assert.deepEqual(await wrongOf(defect, "complete"), { wrong: [], kept: 1 }, defect);
});

test("parts: a repeated completion with another id, with a version of its own, or of which nothing comes: wrong", async () => {
  for (const [defect, pattern] of [
    ["another id", /answered v1, other, and made v1$/],
    ["a version each time", /answered v1, v2, and made v1, v2$/],
    ["nothing made", /answered , and made $/],
  ] as const) {
    const { wrong } = await wrongOf(defect, "complete");
    assert.equal(wrong.length, 1, defect);
    assert.match(wrong[0]!, pattern);
  }
});

test("parts: an aborted upload that completes: wrong; one that does not: nothing", async () => {
  assert.deepEqual(await wrongOf("none", "abort"), { wrong: [], kept: 0 });
  const { wrong } = await wrongOf("completed after an abort", "abort");
  assert.equal(wrong.length, 1);
  assert.match(wrong[0]!, /was aborted, and completed as v1$/);
});
