import { compareBytes } from "@concord/codec";
import type { RowImage } from "@concord/ports";
import { decodeImage, encodeImage, mergeImages } from "@concord/rows";
import { assert, type Checksum } from "@concord/runtime";
import type { ReplicaPage } from "./row-replica.ts";
import { keyOfStored, laterInLog, openRow, sealMerged, type LogPlace, type StoredRow } from "./stored-row.ts";

/** One row as several replicas answered it. */
export interface MergedRow {
  readonly image: RowImage | undefined;
  /** Of a row that follows from a log: how far a replica must have applied it to have this image. */
  readonly place: LogPlace | undefined;
  /** The row as it is stored; empty = never written. */
  readonly bytes: Uint8Array;
  /** By position of the answer: does that replica have less than the merged image? */
  readonly stale: readonly boolean[];
  /** Some replica has nothing of it. */
  readonly isLacking: boolean;
}

/** As a row that was never written. */
export const NO_ROW: MergedRow = { image: undefined, place: undefined, bytes: new Uint8Array(), stale: [], isLacking: false };

interface Answered extends StoredRow {
  readonly bytes: Uint8Array;
}

/**
 * Merges stored rows (TX30): rows of groups by their place in the log, others by timestamp. Equal answers, the common case, are decoded
 * once. Empty bytes = never written.
 */
export function mergeAnswers(answers: readonly Uint8Array[], checksum: Checksum): MergedRow {
  const first = answers[0];
  assert(first !== undefined, "a merge has an answer");
  const isSame = answers.every((answer) => compareBytes(answer, first) === 0);
  if (isSame && first.length === 0) return { ...NO_ROW, stale: answers.map(() => false) };
  const isLacking = answers.some((answer) => answer.length === 0);
  const written = (isSame ? [first] : answers.filter((answer) => answer.length > 0)).map((bytes): Answered => {
    return { ...openRow(bytes, checksum), bytes };
  });
  const newest = written.reduce((best, row) => laterInLog(best, row) ?? best);
  assert(
    written.every(({ place }) => place === undefined || place.seq <= newest.place!.seq),
    "I6: the answer from the latest entry counts",
  );
  if (isSame || newest.place !== undefined) {
    // What is elsewhere is older, or was merged before rows followed from the log.
    const stale = answers.map((answer) => compareBytes(answer, newest.bytes) !== 0);
    return { image: decodeImage(newest.image), place: newest.place, bytes: newest.bytes, stale, isLacking };
  }
  const image = written.map((row) => decodeImage(row.image)).reduce(mergeImages);
  const bytes = sealMerged(encodeImage(image), checksum);
  return { image, place: undefined, bytes, stale: answers.map((answer) => compareBytes(answer, bytes) !== 0), isLacking };
}

export interface MergedPage {
  /** In reading order, dead rows included. */
  readonly rows: readonly MergedRow[];
  /** Encoded key of the last decided row when more may follow; undefined = the range is read to its end. */
  readonly horizon: Uint8Array | undefined;
}

const NEVER_WRITTEN = new Uint8Array();

/**
 * Merges pages of one range. What lies beyond the end of the shortest page that was cut is undecided: its replica was not asked
 * for it yet, so a row that is absent there may still exist, or be deleted (I3).
 */
export function mergePages(pages: readonly ReplicaPage[], reverse: boolean, checksum: Checksum): MergedPage {
  const keys = pages.map((page) => page.rows.map(keyOfStored));
  const inOrder = (left: Uint8Array, right: Uint8Array): number => (reverse ? compareBytes(right, left) : compareBytes(left, right));
  let horizon: Uint8Array | undefined;
  pages.forEach((page, at) => {
    const last = keys[at]!.at(-1);
    if (page.more && last !== undefined && (horizon === undefined || inOrder(last, horizon) < 0)) horizon = last;
  });
  assert(pages.length > 0, "a merge has a page");
  const positions = pages.map(() => 0);
  const rows: MergedRow[] = [];
  for (;;) {
    let next: Uint8Array | undefined;
    positions.forEach((position, at) => {
      const key = keys[at]![position];
      if (key !== undefined && (next === undefined || inOrder(key, next) < 0)) next = key;
    });
    if (next === undefined || (horizon !== undefined && inOrder(next, horizon) > 0)) {
      const isRead = positions.every((position, at) => position === keys[at]!.length);
      assert(horizon !== undefined || isRead, "I3: every row of a range that is read to its end is decided");
      return { rows, horizon };
    }
    rows.push(
      mergeAnswers(
        pages.map((page, at) => takeIf(page, keys[at]!, positions, at, next!)),
        checksum,
      ),
    );
  }
}

function takeIf(page: ReplicaPage, keys: readonly Uint8Array[], positions: number[], at: number, wanted: Uint8Array): Uint8Array {
  const position = positions[at]!;
  const key = keys[position];
  if (key === undefined || compareBytes(key, wanted) !== 0) return NEVER_WRITTEN;
  positions[at] = position + 1;
  return page.rows[position]!;
}
