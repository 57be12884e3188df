// The list of coordinators as one row of the system group (TX3, TX32).
import { z } from "@concord/config";
import type { RecordedList } from "@concord/ownership";
import type { ReadOptions, Row, RowStore } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { ConcordError, type Environment } from "@concord/runtime";
import type { TransactionGroup } from "@concord/transactions";
import { COORDINATOR_LIST_KEY, coordinatorListRow } from "../schema/system-tables.ts";
import { SystemTransaction } from "../schema/system-transaction.ts";

const name = z.string().min(1).max(64);
const count = z.number().int().min(0);

/** Format version 1; it changes as CONTRIBUTING.md says of formats. */
const stored = z.strictObject({
  formatVersion: z.literal(1),
  version: count.min(1),
  founders: z.array(name),
  members: z.array(
    z.strictObject({ name, datacenter: name, place: count, address: z.string().min(1), state: z.enum(["arriving", "member", "leaving"]) }),
  ),
});

export function listToJson(list: RecordedList): string {
  return JSON.stringify({ formatVersion: 1, ...list });
}

/** The inverse, strict: CORRUPT_DATA. */
export function listFromJson(text: string): RecordedList {
  try {
    const { version, founders, members } = stored.parse(JSON.parse(text));
    return { version, founders, members };
  } catch (thrown) {
    throw new ConcordError("CORRUPT_DATA", "the stored list of coordinators is none", { cause: thrown });
  }
}

/** undefined: the configured list was never changed. */
export function listOfRow(row: Row | undefined): RecordedList | undefined {
  const value = row?.columns.get("list");
  if (value === undefined) return undefined;
  if (value?.kind !== "text") throw new ConcordError("CORRUPT_DATA", "the stored list of coordinators is no text");
  return listFromJson(value.value);
}

/** At a majority: it is the newest version that was seen at one before the call, or a newer one. */
export async function readStoredList(rows: RowStore, options: ReadOptions): Promise<RecordedList | undefined> {
  const [image] = await rows.read([COORDINATOR_LIST_KEY], options);
  return listOfRow(liveRow(image));
}

/** The writer of a list: the system group at its master. */
export interface ListWriter {
  readonly group: TransactionGroup;
  readonly environment: Environment;
  readonly rows: RowStore;
  readonly deadlineAtMs: number;
}

/** One transaction on exactly the version before. False: another one was written. Resolves when each reading that begins finds it. */
export async function writeStoredList(
  list: RecordedList,
  before: RecordedList,
  { group, environment, rows, deadlineAtMs }: ListWriter,
): Promise<boolean> {
  const transaction = new SystemTransaction(group, environment, deadlineAtMs);
  try {
    const [row] = await transaction.read(COORDINATOR_LIST_KEY, (operations) => operations.read([COORDINATOR_LIST_KEY]));
    if ((listOfRow(row)?.version ?? 0) !== before.version) return false;
    const token = await transaction.commit([coordinatorListRow(listToJson(list))]);
    const timeoutMs = Math.max(1, deadlineAtMs - environment.clock.monotonicMs());
    await rows.read([COORDINATOR_LIST_KEY], { timeoutMs, after: [{ group: token.group, seq: token.seq }] });
    return true;
  } finally {
    transaction.end();
  }
}
