import { SEGMENT_HEADER_BYTES, type Frame } from "./format.ts";
import type { JournalRecord } from "./api.ts";
import { framesOf, indexOf, type Segment } from "./segment.ts";

/** A frame's place, to go on reading from without a search. */
export interface Place {
  readonly sequence: bigint;
  readonly segment: Segment;
  readonly offset: number;
}

interface Stretch {
  readonly segment: Segment;
  /** Durable when the read began. */
  readonly end: number;
}

/**
 * Records from `from` on, to the end that is durable at the call. `done` gets the place behind the last record given out, also when the
 * caller stops early.
 */
export function readForward(
  segments: readonly Segment[],
  from: bigint,
  place: Place | undefined,
  done: (place: Place | undefined) => void,
): AsyncIterable<JournalRecord> {
  const first = place === undefined ? segmentOf(segments, from) : segments.indexOf(place.segment);
  const stretches: Stretch[] = segments.slice(Math.max(0, first)).map((segment) => ({ segment, end: segment.end }));
  return forward(stretches, from, first < 0 ? undefined : place, done);
}

async function* forward(
  stretches: readonly Stretch[],
  from: bigint,
  place: Place | undefined,
  done: (place: Place | undefined) => void,
): AsyncGenerator<JournalRecord> {
  let reached: Place | undefined;
  try {
    for (const { segment, end } of stretches) {
      const source = await segment.acquire();
      try {
        const isFirst = segment === stretches[0]!.segment;
        const start = isFirst ? (place?.offset ?? (await indexOf(segment, source)).before(from)) : SEGMENT_HEADER_BYTES;
        for await (const frames of framesOf(segment, source, start, end)) {
          for (const frame of frames) {
            if (!holdsOrFollows(frame, from)) continue;
            reached = { sequence: frame.sequence + BigInt(frame.count), segment, offset: frame.end };
            yield frame;
          }
        }
      } finally {
        await segment.release();
      }
    }
  } finally {
    done(reached);
  }
}

/** From the newest record to the oldest, one window of the index in memory at a time. */
export async function* readBackward(segments: readonly Segment[], done: () => void): AsyncGenerator<JournalRecord> {
  const stretches: Stretch[] = segments.map((segment) => ({ segment, end: segment.end }));
  try {
    for (const { segment, end } of stretches.toReversed()) {
      const source = await segment.acquire();
      try {
        const starts = (await indexOf(segment, source)).offsets.filter((offset) => offset < end);
        for (const [at, start] of [...starts.entries()].toReversed()) {
          const block: Frame[] = [];
          for await (const frames of framesOf(segment, source, start, starts[at + 1] ?? end)) block.push(...frames);
          yield* block.toReversed();
        }
      } finally {
        await segment.release();
      }
    }
  } finally {
    done();
  }
}

function holdsOrFollows(frame: Frame, from: bigint): boolean {
  return frame.sequence >= from || frame.sequence + BigInt(frame.count) > from;
}

/** The segment in which the first record at or over `from` may lie: the last one that begins before it. */
function segmentOf(segments: readonly Segment[], from: bigint): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (segments[middle]!.header.firstSequence < from) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
