// Executes with conditions (UN20), and the rows that a refusal names.
import type { TimeId } from "@concord/runtime";
import type { RowCondition, TableCondition } from "@concord/schema";
import assert from "node:assert/strict";
import { ConditionsFailed, type CommitToken, type TableWrite } from "../index.ts";
import { ALBUMS, fails, PHOTOS, PLAIN, plain, type Client } from "./fixture.ts";

export function when(condition: RowCondition): TableCondition {
  const definition = [ALBUMS, PHOTOS, PLAIN].find(({ name }) => name === condition.key.table)!;
  return { definition, condition };
}

export async function executeIf(
  client: Client,
  conditions: readonly TableCondition[],
  writes: readonly TableWrite[],
  id: TimeId = client.fixture.id(),
): Promise<CommitToken> {
  return client.group.serving("unknown").execute(id, writes, client.deadline(), { conditions });
}

/** The rows that failed: key, columns. */
export async function refusal(answer: Promise<unknown>): Promise<unknown[]> {
  const error = await fails("PRECONDITION_FAILED", answer);
  assert.ok(error instanceof ConditionsFailed);
  assert.equal(error.applied, "no");
  return error.failed.map(({ key, row }) => [key.partition[0]!.value, plain(row)]);
}
