import { ConcordError } from "@concord/runtime";
import type { IdSource, SnapshotOptions, WindowOptions, WorkerOptions } from "./api.ts";
import {
  FILTER_BITS_PER_ID,
  ID_SOURCES_MAX,
  IDS_PER_SEGMENT_MAX,
  IDS_PER_SEGMENT_MIN,
  JSON_PATH_MAX,
  PAGE_BYTES_MAX,
  PAGE_MESSAGES_MAX,
  SEGMENTS_MAX,
  SNAPSHOT_EVERY_MS_MIN,
  SNAPSHOTS_KEPT_MAX,
  WINDOW_MEMORY_BYTES_MAX,
} from "./limits.ts";

/** Of one id in the active set: its words and slots, at the moment the table has just doubled. */
const ACTIVE_BYTES_PER_ID = 48;

/** The most memory a window of these options takes: two segments in memory (one fills while the other is sorted and written), filters and fences of the rest. */
export function windowMemoryBytes({ idsPerSegment, segmentsMax }: WindowOptions): number {
  const sorting = idsPerSegment * 24;
  return (
    idsPerSegment * 2 * ACTIVE_BYTES_PER_ID + sorting + Math.ceil(idsPerSegment * (segmentsMax + 1) * (FILTER_BITS_PER_ID / 8 + 16 / 256))
  );
}

/** Refuses options outside the limits: LIMIT_EXCEEDED, or MALFORMED_REQUEST. */
export function checkWorkerOptions(options: WorkerOptions, partitions: number, snapshots: SnapshotOptions | undefined): void {
  const { partition, owner, page, window } = options;
  if (owner === "") throw new ConcordError("MALFORMED_REQUEST", "the owner has a name");
  if (!Number.isSafeInteger(partition) || partition < 0 || partition >= partitions)
    throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${partitions}`);
  checkRange("page.messages", page.messages, 1, PAGE_MESSAGES_MAX);
  checkRange("page.bytes", page.bytes, 1, PAGE_BYTES_MAX);
  checkRange("window.idsPerSegment", window.idsPerSegment, IDS_PER_SEGMENT_MIN, IDS_PER_SEGMENT_MAX);
  checkRange("window.segmentsMax", window.segmentsMax, 1, SEGMENTS_MAX);
  checkRange("window.windowMs", window.windowMs, 0, Number.MAX_SAFE_INTEGER);
  checkRange("the window's memory", windowMemoryBytes(window), 0, WINDOW_MEMORY_BYTES_MAX);
  checkRange("sources of ids", options.idSources.length, 1, ID_SOURCES_MAX);
  for (const source of options.idSources) checkSource(source);
  if (snapshots === undefined) return;
  checkRange("snapshots.kept", snapshots.kept, 1, SNAPSHOTS_KEPT_MAX);
  checkRange("snapshots.everyMs", snapshots.everyMs, SNAPSHOT_EVERY_MS_MIN, Number.MAX_SAFE_INTEGER);
}

function checkSource(source: IdSource): void {
  if (source.kind === "header" && source.name === "") throw new ConcordError("MALFORMED_REQUEST", "the id's header has a name");
  if (source.kind === "json") checkRange("levels of the id's path", source.path.length, 1, JSON_PATH_MAX);
}

function checkRange(name: string, value: number, least: number, most: number): void {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return;
  throw new ConcordError("LIMIT_EXCEEDED", `${name} is ${value}, allowed are ${least} to ${most}`);
}
