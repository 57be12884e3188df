import type { LogBounds, MessageLog } from "@concord/ports";
import { assert, ConcordError, type Log } from "@concord/runtime";
import { IdTable } from "./id-table.ts";
import { ID_WORDS } from "./id-words.ts";
import { REBUILD_PAGE } from "./limits.ts";
import { seedOf } from "./load-window.ts";
import type { IdReader } from "./read-page.ts";
import type { MissingSegment, OutputIds, Window } from "./window.ts";

export interface RebuildSource {
  readonly log: MessageLog;
  readonly partition: number;
  /** The output's bounds, read after the fence. */
  readonly output: LogBounds;
  readonly reader: IdReader;
  /** Aborted: DRAINING before the next page. What is applied by then stays. */
  readonly stopping: AbortSignal;
}

/**
 * Brings the window to the output (DD9): restores lost segments, applies [outNext, end). An output that does not have what is needed stops
 * the partition; a window is never begun empty beside an output that has messages (DDD11).
 */
export async function rebuildWindow(window: Window, source: RebuildSource, report: Log): Promise<void> {
  const { output, partition } = source;
  const next = window.appliedOutput;
  if (next === undefined) await window.begin(output.start);
  else if (next < output.start || next > output.end) {
    throw new ConcordError(
      "PARTITION_STOPPED",
      `the window of partition ${partition} is applied up to output offset ${next}, the output holds ${output.start} to ${output.end}: ` +
        "one of them is from another time. Restore the one that is wrong, or move the window's folder away to rebuild it from the output",
    );
  }
  for (let segment = window.missing[0]; segment !== undefined; segment = window.missing[0])
    await restoreSegment(window, segment, source, report);
  const from = window.appliedOutput;
  assert(from !== undefined && from >= output.start && from <= output.end, "DDD2: a window goes on within the output");
  let foreign = 0;
  for await (const page of outputPages(source, from, output.end)) {
    foreign += page.foreign;
    await window.apply(page);
  }
  if (from < output.end) report.info("window rebuilt from the output", { partition, from, to: output.end });
  if (foreign > 0) report.warn("the output has messages of another publisher: they are in no window", { partition, foreign });
}

async function restoreSegment(window: Window, segment: MissingSegment, source: RebuildSource, report: Log): Promise<void> {
  const { output, partition } = source;
  if (segment.from < output.start || segment.to > output.end) {
    throw new ConcordError(
      "PARTITION_STOPPED",
      `${segment.store} of partition ${partition} cannot be read, and the output holds ${output.start} to ${output.end} of its ${segment.from} to ` +
        `${segment.to}: restore the window's folder from a copy, or move it away to go on with the ids that the output still has`,
    );
  }
  const ids = new IdTable(seedOf(window.idKey));
  let oldestMs = Infinity;
  let newestMs = 0;
  for await (const page of outputPages(source, segment.from, segment.to)) {
    for (let at = 0; at < page.ids.length; at += ID_WORDS) ids.add(page.ids, at);
    for (const ms of page.publishedMs) {
      oldestMs = Math.min(oldestMs, ms);
      newestMs = Math.max(newestMs, ms);
    }
  }
  await window.restore(segment, ids, ids.count === 0 ? newestMs : oldestMs, newestMs);
  report.info("segment restored from the output", { partition, from: segment.from, to: segment.to, ids: ids.count });
}

async function* outputPages(source: RebuildSource, from: bigint, to: bigint): AsyncGenerator<OutputIds & { readonly foreign: number }> {
  const { log, partition, reader, stopping } = source;
  let at = from;
  while (at < to) {
    if (stopping.aborted) throw new ConcordError("DRAINING", `partition ${partition} stops here`);
    const page = await log.read("output", partition, at, REBUILD_PAGE);
    const next = page.next < to ? page.next : to;
    yield reader.readOutput(
      page.messages.filter((message) => message.offset < next),
      next,
    );
    if (next === at) throw new ConcordError("PARTITION_STOPPED", `the output of partition ${partition} ends at ${at}, before ${to}`);
    at = next;
  }
  assert(at === to, "DD9: a part of the output is read to its end and no further");
}
