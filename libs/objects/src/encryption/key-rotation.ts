// Data keys that are wrapped under an earlier key are wrapped under the one that took its place: rows are read and written, no data.
import type { MetadataRow } from "@concord/ports";
import { assert, ConcordError, every, sleep, Task, toConcordError } from "@concord/runtime";
import { changeObject } from "../change-object.ts";
import { commitRepeatable } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertForward } from "../page-invariants.ts";
import { decodeRow, decodeRowAs, type Row } from "../row-codec.ts";
import {
  afterKey,
  bucketPartition,
  bucketSpan,
  contentSpan,
  headerKey,
  headSpan,
  keyOfObject,
  SYSTEM_PARTITION,
  uploadOfKey,
} from "../row-keys.ts";
import type { StoredObject, UploadRow } from "../rows.ts";
import { versionIdOf } from "../versions.ts";
import { rewrapped } from "./data-keys.ts";

export interface RotationCounts {
  /** Rows that were looked at. */
  readonly looked: number;
  /** Data keys that are under the present key now. */
  readonly wrapped: number;
  /** That could not be; the log names them, and the next pass tries again. */
  readonly left: number;
}

export interface RotationOptions {
  readonly context: ObjectStoreContext;
  /** From the end of one pass to the beginning of the next. ROTATION_INTERVAL_MS if absent. */
  readonly intervalMs?: number;
  /** ROTATION_ROWS_PER_SECOND if absent. */
  readonly rowsPerSecond?: number;
}

export const ROTATION_INTERVAL_MS = 3_600_000;
export const ROTATION_ROWS_PER_SECOND = 2000;
const PAGE_ROWS = 100;
/** The log line of a pass, with its counts. */
export const KEYS_WRAPPED = "data keys were wrapped anew";

/** While several keys are configured. Gateways do it beside each other: each row is compared and set. */
export class KeyRotation {
  readonly #context: ObjectStoreContext;
  readonly #task: Task;

  constructor({ context, intervalMs, rowsPerSecond }: RotationOptions) {
    this.#context = context;
    const pauseMs = intervalMs ?? ROTATION_INTERVAL_MS;
    const rate = rowsPerSecond ?? ROTATION_ROWS_PER_SECOND;
    assert(rate > 0, "a pass has a rate");
    this.#task = new Task({
      ...context,
      name: "objects: rotation of keys",
      ...every(pauseMs, (signal) => this.#pass(rate, signal)),
      failed: ({ message }) => context.log.warn("data keys are wrapped anew later", { reason: message }),
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #pass(rowsPerSecond: number, signal: AbortSignal): Promise<void> {
    const { clock, log, metrics } = this.#context;
    const counts = await rotationPass(this.#context, async (rows) => {
      await sleep(clock, (rows * 1000) / rowsPerSecond, signal);
      signal.throwIfAborted();
    });
    metrics.gauge("objects_keys_left", counts.left);
    log.info(KEYS_WRAPPED, { ...counts });
  }
}

/** All rows of all buckets, once. `pace` is called with rows that were read; it rejects when the pass must stop. */
export async function rotationPass(context: ObjectStoreContext, pace: (rows: number) => Promise<void>): Promise<RotationCounts> {
  const counts = { looked: 0, wrapped: 0, left: 0 };
  for await (const buckets of pages(context, SYSTEM_PARTITION, bucketSpan())) {
    for (const { value } of buckets) {
      const { name, shards } = decodeRowAs("bucket", value);
      for (let shard = 0; shard < shards; shard += 1) {
        for await (const rows of pages(context, bucketPartition(name, shard), contentSpan())) {
          counts.looked += rows.length;
          for (const row of rows) await lookAt(context, name, shard, row, counts);
          await pace(rows.length);
        }
      }
    }
  }
  assert(counts.wrapped + counts.left <= counts.looked, "a row that is wrapped anew or left was looked at");
  return counts;
}

async function* pages(
  context: ObjectStoreContext,
  partition: string,
  { from: first, to }: { readonly from: Uint8Array; readonly to: Uint8Array },
): AsyncGenerator<readonly MetadataRow[], void, void> {
  let from = first;
  for (;;) {
    const rows = await context.metadata.range(partition, { from, to, limit: PAGE_ROWS, onUnreadable: () => undefined });
    if (rows.length > 0) yield rows;
    if (rows.length < PAGE_ROWS) return;
    from = assertForward(from, afterKey(rows.at(-1)!.key));
  }
}

async function lookAt(
  context: ObjectStoreContext,
  bucket: string,
  shard: number,
  found: MetadataRow,
  counts: { wrapped: number; left: number },
): Promise<void> {
  try {
    const row = decodeRow(found.value);
    if (await wrapOne(context, bucket, shard, found, row)) {
      counts.wrapped += 1;
      context.metrics.count("objects_keys_wrapped_total");
    }
  } catch (thrown) {
    const { code, message } = toConcordError(thrown);
    // It is not there any more.
    if (code === "OBJECT_UNKNOWN" || code === "BUCKET_UNKNOWN") return;
    counts.left += 1;
    context.log.warn("a data key cannot be wrapped anew now", { bucket, code, reason: message });
  }
}

/** False: it is under the present key, or there is none. */
async function wrapOne(context: ObjectStoreContext, bucket: string, shard: number, found: MetadataRow, row: Row): Promise<boolean> {
  if (row.kind !== "object" && row.kind !== "upload") return false;
  if (row.encryption === undefined) return false;
  if (row.kind === "upload") return await wrapUpload(context, bucket, shard, found, row);
  const key = keyOfObject(found.key);
  if ((await rewrapped(context, row.encryption, { bucket, key })) === undefined) return false;
  const isHead = found.key[0] === headSpan().from[0];
  const versionId = isHead ? undefined : row.version === undefined ? "null" : versionIdOf(row.version);
  const change = async (object: StoredObject): Promise<StoredObject> => {
    const encryption = object.encryption && (await rewrapped(context, object.encryption, { bucket, key }));
    return encryption === undefined ? object : { ...object, encryption };
  };
  await changeObject(context, { bucket, key, versionId, what: "data key was", changes: "encryption", event: undefined, change });
  return true;
}

/** One that changed meanwhile is looked at by the next pass. */
async function wrapUpload(
  context: ObjectStoreContext,
  bucket: string,
  shard: number,
  { key: rowKey, version }: MetadataRow,
  row: UploadRow,
): Promise<boolean> {
  const { key, uploadId } = uploadOfKey(rowKey);
  const encryption = row.encryption && (await rewrapped(context, row.encryption, { bucket, key }));
  if (encryption === undefined) return false;
  assert(encryption.guid === uploadId, "I21: parts keep the key that they are encrypted with");
  const partition = bucketPartition(bucket, shard);
  const [header] = await context.metadata.read(partition, [headerKey()]);
  const next = nextVersion(version, context.clock, await context.guids.next());
  const { kind } = await commitRepeatable(context, {
    partition,
    // The header too, as every commit of an upload (I3).
    conditions: [
      { key: headerKey(), version: header?.version },
      { key: rowKey, version },
    ],
    writes: [putRow(rowKey, next, { ...row, encryption })],
  });
  if (kind !== "committed") throw new ConcordError("WRITE_CONFLICT", "another request changed the upload");
  return true;
}
