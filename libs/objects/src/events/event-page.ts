// Delivers the events of one shard: by target, in the order of their numbers; each goes when its target has it, and not before (OGD19).
import { compareBytes } from "@concord/codec";
import { sameVersion, type MessageSink, type MetadataRow, type SinkAnswer, type SinkMessage } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import { assertForward } from "../page-invariants.ts";
import { decodeRowAs } from "../row-codec.ts";
import { afterKey, eventSpan, targetOfEvent, type EventTarget } from "../row-keys.ts";
import type { EventRow } from "../rows.ts";
import { orderText } from "../versions.ts";
import { countEvents } from "./event-writes.ts";
import { EVENT_PAGE, EVENT_REMOVAL_TRIES, EVENT_SEND_MS } from "./limits.ts";

/** An event, with what its message is made of besides. */
export interface WaitingEvent extends EventRow {
  readonly target: string;
  /** Of two events of a key the one of the later commit has the greater text; of the same length always. */
  readonly sequencer: string;
}

/** What became of one page of events of one target. */
export interface PageOutcome {
  readonly accepted: number;
  readonly duplicate: number;
  readonly dropped: number;
  /** Stay: a target fails, is unknown or not this tenant's, or the events are too old. */
  readonly kept: number;
}

export interface PageOptions {
  readonly partition: string;
  readonly encode: (event: WaitingEvent) => Pick<SinkMessage, "key" | "value">;
  /** Undefined: this tenant has no such target, or it is not tried now. */
  readonly sink: (to: EventTarget) => MessageSink | undefined;
  readonly failed: (to: EventTarget, cause: string) => void;
  readonly worked: (to: EventTarget) => void;
  readonly maxAgeMs: number;
  readonly overdue: "keep" | "send" | "drop";
  readonly metAge: (ageMs: number, isOverdue: boolean) => void;
  readonly meter: (events: number) => Promise<void>;
  readonly signal: AbortSignal;
}

interface Waiting {
  readonly row: MetadataRow;
  readonly event: WaitingEvent;
}

/** All events of the shard that can go now. */
export async function deliverShard(context: ObjectStoreContext, options: PageOptions): Promise<PageOutcome> {
  const total = { accepted: 0, duplicate: 0, dropped: 0, kept: 0 };
  const span = eventSpan();
  for (let { from } = span; ;) {
    options.signal.throwIfAborted();
    const onUnreadable = (): void => {
      context.metrics.count("objects_rows_unreadable_total");
      total.kept += 1;
    };
    const rows = await context.metadata.range(options.partition, { from, to: span.to, limit: EVENT_PAGE, onUnreadable });
    if (rows.length === 0) return total;
    const to = targetOfEvent(rows[0]!.key);
    const { to: end } = eventSpan(to);
    const page = rows.filter(({ key }) => compareBytes(key, end) < 0);
    assert(page.length > 0, "events of a target are in one span of keys");
    const outcome = await deliverPage(context, options, to, page);
    for (const name of Object.keys(total) as (keyof PageOutcome)[]) total[name] += outcome[name];
    // The next target's events are behind all of this one's.
    from = assertForward(from, outcome.isFailed ? end : afterKey(page.at(-1)!.key));
  }
}

async function deliverPage(
  context: ObjectStoreContext,
  options: PageOptions,
  to: EventTarget,
  rows: readonly MetadataRow[],
): Promise<PageOutcome & { readonly isFailed: boolean }> {
  const waiting = rows.map((row): Waiting => ({ row, event: waitingOf(row, to.target) }));
  const none = { accepted: 0, duplicate: 0, dropped: 0, isFailed: false };
  // Each is looked at once: its age is reported with that.
  const overdue = new Set(waiting.filter(({ event }) => isOverdue(context, options, event)));
  const due = options.overdue === "send" ? waiting : waiting.filter((one) => !overdue.has(one));
  const dropped = options.overdue === "drop" ? await drop(context, options, [...overdue]) : 0;
  const sink = due.length === 0 ? undefined : options.sink(to);
  if (sink === undefined) return { ...none, dropped, kept: rows.length - dropped, isFailed: due.length > 0 };
  await options.meter(due.length);
  const answers = await send(context, options, { to, sink, due });
  if (answers === undefined) return { ...none, dropped, kept: rows.length - dropped, isFailed: true };
  const done = due.filter((_, at) => answers[at] === "accepted" || answers[at] === "duplicate");
  const removed = await remove(context, options.partition, done);
  if (answers.includes("refused")) options.failed(to, "the target refused an event");
  else options.worked(to);
  const count = (answer: SinkAnswer): number => (removed ? answers.filter((one) => one === answer).length : 0);
  const [accepted, duplicate] = [count("accepted"), count("duplicate")];
  const kept = rows.length - dropped - accepted - duplicate;
  assert(kept >= 0, "OGD19: an event of a page is sent, dropped or kept, and once");
  return { accepted, duplicate, dropped, kept, isFailed: false };
}

function waitingOf(row: MetadataRow, target: string): WaitingEvent {
  return { ...decodeRowAs("event", row.value), target, sequencer: orderText(row.version) };
}

function isOverdue({ clock }: ObjectStoreContext, { maxAgeMs, metAge }: PageOptions, { atMs }: EventRow): boolean {
  const ageMs = clock.nowMs() - atMs;
  metAge(ageMs, ageMs >= maxAgeMs);
  return ageMs >= maxAgeMs;
}

async function send(
  context: ObjectStoreContext,
  { encode, failed, signal }: PageOptions,
  { to, sink, due }: { readonly to: EventTarget; readonly sink: MessageSink; readonly due: readonly Waiting[] },
): Promise<readonly SinkAnswer[] | undefined> {
  const messages = due.map(({ row, event }) => ({ id: messageId(row, event), timestampMs: event.atMs, ...encode(event) }));
  context.failpoint("events:before-send");
  let answers: readonly SinkAnswer[];
  try {
    answers = await sink.send(messages, { timeoutMs: EVENT_SEND_MS, signal });
  } catch (thrown) {
    failed(to, toConcordError(thrown).message);
    return undefined;
  }
  assert(answers.length === messages.length, "a sink answers for each message");
  context.failpoint("events:after-send");
  return answers;
}

/**
 * The same for every try and every gateway, and of no other event: commits of one number have different GUIDs, and a commit is about one key.
 */
function messageId({ version }: MetadataRow, { bucket, bucketCreatedMs, rule }: EventRow): string {
  return `s3:${bucket}:${bucketCreatedMs}:${orderText(version)}:${rule}`;
}

async function drop(
  context: ObjectStoreContext,
  { partition, overdue: policy }: PageOptions,
  overdue: readonly Waiting[],
): Promise<number> {
  assert(policy === "drop", "OGD19: an event that was not delivered goes only where its operator says so");
  if (overdue.length === 0 || !(await remove(context, partition, overdue))) return 0;
  for (const { row, event } of overdue)
    context.log.error("an event was too old to be sent, and is dropped", { id: messageId(row, event), target: event.target });
  return overdue.length;
}

/** Exactly as they were read, but for those that another gateway removed. False: it is not known; what is left is sent again, and is a duplicate then. */
async function remove(context: ObjectStoreContext, partition: string, done: readonly Waiting[]): Promise<boolean> {
  let left = done;
  for (let attempt = 1; attempt <= EVENT_REMOVAL_TRIES && left.length > 0; attempt += 1) {
    const bytes = left.reduce((sum, { row }) => sum + row.key.length + row.value.length, 0);
    const outcome = await context.metadata.commit({
      partition,
      conditions: left.map(({ row: { key, version } }) => ({ key, version })),
      writes: [...left.map(({ row: { key } }) => ({ kind: "delete", key }) as const), countEvents(-left.length, -bytes)],
    });
    context.failpoint("events:after-removal");
    if (outcome.kind === "unknown") return false;
    const now = outcome.kind === "conflict" ? outcome.rows : [];
    left = left.filter(({ row }, at) => sameVersion(now[at]?.version, row.version));
  }
  return left.length === 0;
}
