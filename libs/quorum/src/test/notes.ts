// A table of notes for tests of the quorum procedures.
import type { Mutation, RowKey, RowRange } from "@concord/ports";
import { timestampUsOf } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { turn, type Behaviour, type TestReplica, type TestRing } from "./ring.ts";

export const OPTIONS = { timeoutMs: 1000 };
export const text = (value: string): CellValue => ({ kind: "text", value });
export const keyOf = (at: number): RowKey => ({
  table: "notes",
  partition: [text("p")],
  clustering: [{ kind: "bigint", value: BigInt(at) }],
});
export const KEY = keyOf(1);
export const RANGE: RowRange = { table: "notes", partition: [text("p")], reverse: false, limit: 100 };
export const insert = (value: string, timestampUs: number, key: RowKey = KEY): Mutation => ({
  kind: "insert",
  key,
  columns: [{ column: "v", value: text(value) }],
  timestampUs: timestampUsOf(BigInt(timestampUs)),
});
export const remove = (timestampUs: number, key: RowKey = KEY): Mutation => ({
  kind: "delete",
  key,
  timestampUs: timestampUsOf(BigInt(timestampUs)),
});

export function behave(ring: TestRing, ...behaviours: Behaviour[]): void {
  behaviours.forEach((behaviour, at) => (ring.replicas[at]!.behaviour = behaviour));
}

export const settled = async (promise: Promise<unknown>): Promise<string> => {
  let state = "waiting";
  promise.then(
    () => (state = "done"),
    (error: { code: string; applied: string }) => (state = `${error.code}/${error.applied}`),
  );
  for (let turns = 0; turns < 5; turns += 1) await turn();
  return state;
};

/** The replica ends every page early. */
export function cutPages(replica: TestReplica, most: number): void {
  const whole = replica.readRowRange.bind(replica);
  replica.readRowRange = (range, timeoutMs, after) => whole({ ...range, limit: Math.min(range.limit, most) }, timeoutMs, after);
}
