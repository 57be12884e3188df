// Random transactions over random faults and takeovers of one group: what was acknowledged is there, what was aborted is not, in one order.
import { toConcordError, type TimeId } from "@concord/runtime";
import assert from "node:assert/strict";
import { dice } from "@concord/port-contracts";
import { albumKey, isPending, plain, settle, TestFixture, text, update, type Client, type Session } from "./fixture.ts";
import type { CommitToken, TableWrite } from "../index.ts";

export const LISTS = 3;
const STEPS_MAX = 40;

/** One transaction that appends its number to two lists. */
interface Append {
  readonly number: number;
  readonly lists: readonly [number, number];
  readonly id: TimeId;
  outcome: "running" | "committed" | "aborted" | "unknown";
}

/**
 * A client that lost its connection sends its commit again, before the first call has an answer or, to the newest owner, after it; or by mistake another
 * one.
 */
export type Repeat = (typeof REPEATS)[number];
export const REPEATS = ["never", "never", "at once", "later", "answered", "otherwise"] as const;

export type Step =
  | {
      readonly kind: "append";
      readonly from: number;
      readonly to: number;
      readonly master: number;
      readonly blind: boolean;
      readonly repeat: Repeat;
    }
  | { readonly kind: "append-fault"; readonly fault: "lost" | "accepted" | "throw" }
  | { readonly kind: "apply-fault"; readonly fault: "lost" | "written" }
  | { readonly kind: "takeover" }
  | { readonly kind: "stop" }
  | { readonly kind: "wait"; readonly ms: number };

const itemsOf = (row: Record<string, unknown> | undefined): string[] =>
  ((row?.["title"] as string | undefined) ?? "").split(",").filter((item) => item !== "");

async function append(client: Client, one: Append, repeat: Repeat, newest: () => Client): Promise<void> {
  const session = client.begin(one.id);
  try {
    const [first, second] = one.lists;
    const writes = [];
    const firstRow = await session.start(albumKey(first));
    writes.push(update(albumKey(first), { title: text([...itemsOf(plain(firstRow)), String(one.number)].join(",")) }));
    if (second !== first) {
      const row = await session.lock(albumKey(second));
      writes.push(update(albumKey(second), { title: text([...itemsOf(plain(row)), String(one.number)].join(",")) }));
    }
    await commit(session, writes, repeat, newest);
    one.outcome = "committed";
  } catch (thrown) {
    const { applied } = thrown as { applied?: string };
    assert.ok(applied === "no" || applied === "unknown", String(thrown));
    one.outcome = applied === "no" ? "aborted" : "unknown";
  }
}

/** Both answers are of one transaction: the same decision where both know it, and no other payload is ever the committed one (TXD7). */
async function commit(session: Session, writes: readonly TableWrite[], repeat: Repeat, newest: () => Client): Promise<CommitToken> {
  const first = session.commit(writes);
  if (repeat === "never") return first;
  // Heard below, which may be later than it fails.
  first.catch(() => undefined);
  if (repeat === "later") await settle();
  if (repeat === "answered") await first.catch(() => undefined);
  const sender = repeat === "answered" ? newest().begin(session.id) : session;
  const again = sender.commit(repeat === "otherwise" ? [update(albumKey(0), { title: text("of another commit") })] : writes);
  const answers = await Promise.allSettled([first, again]);
  if (repeat === "otherwise") {
    assert.equal(answers[1].status, "rejected", "another payload is answered as committed");
    return first;
  }
  const tokens = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  const errors = answers.flatMap((answer) => (answer.status === "rejected" ? [toConcordError(answer.reason)] : []));
  if (tokens.length === 2) assert.equal(tokens[0]!.seq, tokens[1]!.seq, "two answers to one commit");
  if (tokens.length === 1) assert.notEqual(errors[0]!.applied, "no", `a commit is committed and refused: ${String(errors[0])}`);
  if (tokens.length > 0) return tokens[0]!;
  throw errors.find(({ applied }) => applied === "unknown") ?? errors[0]!;
}

/** A takeover repeats its steps until the planned faults are used up. */
async function openedInTime(fixture: TestFixture): Promise<Client> {
  const opening = fixture.open();
  for (let waited = 0; waited < 100 && (await isPending(opening)); waited += 1) await fixture.clock.advance(200);
  return opening;
}

/** `appliesRows`: replicas apply what the log decided; else the owner does. Throws at the first wrong state. Answers what was acknowledged. */
export async function playTransactions(steps: readonly Step[], appliesRows: boolean): Promise<number> {
  const fixture = new TestFixture({
    appliesRows,
    settings: { lockTimeoutMs: 200 },
    limits: { pendingFlushesMax: 3, trimEveryFlushes: 2, recentOutcomesMax: 8, cachedRowsMax: 2 },
  });
  const masters: Client[] = [await fixture.open()];
  const appends: Append[] = [];
  const running: Promise<void>[] = [];
  for (const one of steps) {
    switch (one.kind) {
      case "append": {
        const entry: Append = { number: appends.length + 1, lists: [one.from, one.to], id: fixture.id(), outcome: "running" };
        appends.push(entry);
        const appended = append(masters[Math.max(0, masters.length - 1 - one.master)]!, entry, one.repeat, () => masters.at(-1)!);
        // Heard at the end.
        appended.catch(() => undefined);
        running.push(appended);
        if (!one.blind) await settle();
        break;
      }
      case "append-fault":
        fixture.log.appendFaults.push(one.fault);
        break;
      case "apply-fault":
        if (appliesRows) fixture.log.advanceFaults.push(one.fault === "lost" ? "unknown" : "throw");
        else fixture.rows.applyFaults.push(one.fault);
        break;
      case "takeover": {
        masters.push(await openedInTime(fixture));
        break;
      }
      case "stop":
        masters.at(-1)!.group.stop();
        break;
      case "wait":
        await fixture.clock.advance(one.ms);
        break;
    }
  }
  fixture.log.appendFaults = [];
  fixture.rows.applyFaults = [];
  fixture.log.advanceFaults = [];
  const last = await openedInTime(fixture);
  await fixture.clock.advance(3_000);
  await Promise.all(running);
  const acknowledged = appends.filter(({ outcome }) => outcome === "committed").length;
  await check(last, fixture, appends);
  return acknowledged;
}

/** Steps of one seed, under both ways to apply. */
export async function runTransactionHistory(seed: number): Promise<{ readonly sent: number; readonly acknowledged: number }> {
  const below = dice(seed);
  const steps = Array.from({ length: 5 + below(STEPS_MAX - 4) }, () => drawStep(below));
  const sent = steps.filter(({ kind }) => kind === "append").length;
  return { sent: 2 * sent, acknowledged: (await playTransactions(steps, false)) + (await playTransactions(steps, true)) };
}

function drawStep(below: (limit: number) => number): Step {
  const pick = <Choice>(...choices: readonly Choice[]): Choice => choices[below(choices.length)]!;
  const weight = below(22);
  if (weight < 12)
    return { kind: "append", from: below(LISTS), to: below(LISTS), master: below(3), blind: below(2) === 0, repeat: pick(...REPEATS) };
  if (weight < 14) return { kind: "append-fault", fault: pick("lost", "accepted", "throw") };
  if (weight < 16) return { kind: "apply-fault", fault: pick("lost", "written") };
  if (weight < 17) return { kind: "takeover" };
  return weight < 18 ? { kind: "stop" } : { kind: "wait", ms: pick(0, 1, 15, 300) };
}

async function check(last: Client, fixture: TestFixture, appends: readonly Append[]): Promise<void> {
  for (const one of appends) {
    assert.notEqual(one.outcome, "running");
    const resolving = last.group.serving().resolveOutcome(one.id, last.deadline());
    await settle();
    const resolved = await resolving;
    if (one.outcome === "committed") assert.equal(resolved.kind, "committed", `${one.number} was acknowledged`);
    if (one.outcome === "aborted") assert.equal(resolved.kind, "aborted", `${one.number} was refused with applied: no`);
    one.outcome = resolved.kind === "committed" ? "committed" : "aborted";
  }
  await fixture.clock.advance(1_000);
  const lists = Array.from({ length: LISTS }, (_, at) => itemsOf(plain(fixture.rows.row(albumKey(at)))));
  for (const [at, items] of lists.entries()) {
    const expected = appends.filter((one) => one.outcome === "committed" && one.lists.includes(at)).map((one) => String(one.number));
    assert.deepEqual(items.toSorted(), expected.toSorted(), `list ${at} holds what was committed, once`);
  }
  for (const left of lists) {
    for (const right of lists) {
      const both = left.filter((item) => right.includes(item));
      assert.deepEqual(
        both,
        right.filter((item) => left.includes(item)),
        "all lists agree on one order",
      );
    }
  }
}
