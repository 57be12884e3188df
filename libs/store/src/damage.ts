import { ConcordError } from "@concord/runtime";
import type { SumDifference } from "./range-sums.ts";

export function damaged(folder: string, what: string): ConcordError {
  return new ConcordError("CORRUPT_DATA", `the store in ${folder} is damaged: ${what}`, { applied: "no" });
}

export function describeDifference({ range, expected, found }: SumDifference): string {
  const text = `keys that begin with byte ${range}: ${expected} values were checkpointed, ${found} are there`;
  return expected === found ? `${text}, and their contents differ` : text;
}
