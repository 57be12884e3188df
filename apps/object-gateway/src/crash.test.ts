// The real program, killed at points of its work and started again: what was acknowledged is there, nothing leaks, nothing dangles.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { admin, call, newFolder, start, stop, type Program, type Report } from "./test/program.ts";
import type { Answer } from "./test/http-client.ts";

const OLD = "old ".repeat(10_000);
const NEW = "new ".repeat(10_000);

/** An operation on the bucket whose key "k" holds OLD, and what "k" may hold afterwards when no answer came. */
interface Crash {
  readonly point: string;
  /** Which time the point is passed: the bucket and the old object come before. */
  readonly hit: number;
  readonly journal?: string;
  /** The bucket keeps versions: OLD stays readable by its id, whatever happens. */
  readonly versioned?: true;
  readonly run: (program: Program) => Promise<Answer>;
  /** "" stands for no object. */
  readonly after: readonly string[];
  /** Blobs that no recovery and no collection looks at again. */
  readonly leaks?: number;
}

const put = (program: Program): Promise<Answer> => call(program, "PUT", "/bucket/k", NEW);
const remove = (program: Program): Promise<Answer> => call(program, "DELETE", "/bucket/k");
const keepVersions = (program: Program): Promise<Answer> =>
  call(program, "PUT", "/bucket", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", [["versioning", ""]]);
const upload = async (program: Program): Promise<Answer> => {
  const created = await call(program, "POST", "/bucket/k", "", [["uploads", ""]]);
  const uploadId = /<UploadId>([^<]+)</.exec(created.body)![1]!;
  const part = await call(program, "PUT", "/bucket/k", NEW, [
    ["partNumber", "1"],
    ["uploadId", uploadId],
  ]);
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.headers["etag"]}</ETag></Part></CompleteMultipartUpload>`;
  return call(program, "POST", "/bucket/k", body, [["uploadId", uploadId]]);
};

const CRASHES: readonly Crash[] = [
  { point: "object:after-create", hit: 2, run: put, after: [OLD] },
  { point: "object:before-seal", hit: 2, run: put, after: [OLD] },
  { point: "object:after-seal", hit: 2, run: put, after: [OLD] },
  { point: "object:after-seal", hit: 2, journal: "per-transaction", run: put, after: [OLD] },
  { point: "object:after-seal", hit: 2, journal: "per-transaction-basic", run: put, after: [OLD] },
  { point: "object:after-commit", hit: 2, run: put, after: [NEW] },
  { point: "gateway:before-answer", hit: 3, run: put, after: [NEW] },
  { point: "multipart:after-part-data", hit: 1, run: upload, after: [OLD] },
  { point: "multipart:after-part-commit", hit: 1, run: upload, after: [OLD] },
  { point: "multipart:before-complete-commit", hit: 1, run: upload, after: [OLD] },
  { point: "multipart:after-complete-commit", hit: 1, run: upload, after: [NEW] },
  { point: "object:after-delete", hit: 1, run: remove, after: [""] },
  { point: "object:after-seal", hit: 2, versioned: true, run: put, after: [OLD] },
  { point: "object:after-commit", hit: 2, versioned: true, run: put, after: [NEW] },
  { point: "object:after-commit", hit: 2, versioned: true, journal: "per-transaction", run: put, after: [NEW] },
  { point: "object:after-commit", hit: 2, versioned: true, journal: "per-transaction-basic", run: put, after: [NEW] },
  { point: "multipart:after-complete-commit", hit: 1, versioned: true, run: upload, after: [NEW] },
  { point: "object:after-delete", hit: 1, versioned: true, run: remove, after: [""] },
  { point: "bucket:after-changing", hit: 1, run: keepVersions, after: [OLD] },
  { point: "bucket:after-changed-headers", hit: 1, run: keepVersions, after: [OLD] },
  // The switch of OG21, off: what the others are kept from.
  { point: "object:after-seal", hit: 2, journal: "off", run: put, after: [OLD], leaks: 1 },
];

describe("crash", { concurrency: 3 }, () => {
  for (const { point, hit, journal = "reservation", versioned, run, after: expected, leaks = 0 } of CRASHES) {
    const kept = versioned === true ? ", versions kept" : "";
    test(`${leaks === 0 ? "[OG4]" : "[OG21]"} crash: killed at ${point}, journal ${journal}${kept}: started again: whole, ${leaks} blobs leaked`, async () => {
      const folder = await newFolder();
      const killed = await start(folder, ["--journal", journal], `${point}:${hit}`);
      await call(killed, "PUT", "/bucket");
      if (versioned === true) assert.equal((await keepVersions(killed)).status, 200);
      const old = await call(killed, "PUT", "/bucket/k", OLD);
      assert.equal(old.status, 200);
      await assert.rejects(run(killed), "the process was killed before it answered");
      await stop(killed, "SIGKILL");
      const again = await start(folder, ["--journal", journal]);
      while (!(await admin<{ recovered: boolean }>(again, "GetStatus")).recovered);
      const got = await call(again, "GET", "/bucket/k");
      assert.ok(expected.includes(got.status === 404 ? "" : got.body), `${got.status}`);
      const oldId = old.headers["x-amz-version-id"];
      if (versioned === true) assert.equal((await call(again, "GET", "/bucket/k", "", [["versionId", oldId!]])).body, OLD);
      await call(again, "PUT", "/bucket/other", NEW);
      await admin(again, "CollectGarbage", { aheadMs: 3_600_001n });
      if (versioned === true) assert.equal((await call(again, "GET", "/bucket/k", "", [["versionId", oldId!]])).body, OLD);
      const report = await admin<Report>(again, "CheckConsistency");
      assert.deepEqual([report.leaked.length, report.dangling], [leaks, []]);
      assert.equal(report.pieces, report.referenced + BigInt(leaks), "what no row names is gone");
      await stop(again, "SIGTERM");
    });
  }
});
