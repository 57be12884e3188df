import type { MicroOperation, Transaction } from "./index.ts";

/**
 * Histories as text, one transaction per line: `T1 ok 0-5: x+1 y=[1 2] z=?` appends 1 to x, reads y as [1 2], reads z with an unknown
 * answer. Without times all transactions are concurrent.
 */
export function history(text: string): Transaction[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "").map(transactionOf);
}

function transactionOf(line: string): Transaction {
  const match = /^(\S+) (ok|fail|info)(?: (\d+)-(\d+))?: (.*)$/.exec(line);
  if (match === null) throw new Error(`cannot read: ${line}`);
  const [, name = "", outcome, start = "0", end = "1000", operations = ""] = match;
  return {
    name,
    outcome: outcome as Transaction["outcome"],
    startedAt: Number(start),
    endedAt: Number(end),
    operations: [...operations.matchAll(/(\w+)(?:\+(\d+)|=(\?|\[[\d ]*\]))/g)].map(operationOf),
  };
}

function operationOf(match: RegExpMatchArray): MicroOperation {
  const [, key = "", element, answer = ""] = match;
  if (element !== undefined) return { kind: "append", key, element: Number(element) };
  if (answer === "?") return { kind: "read", key, elements: undefined };
  const numbers = answer
    .slice(1, -1)
    .split(" ")
    .filter((part) => part !== "");
  return { kind: "read", key, elements: numbers.map(Number) };
}
