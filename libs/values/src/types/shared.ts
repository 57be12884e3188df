import { ConcordError } from "@concord/runtime";
import type { Literal, Refused } from "../cell-type.ts";

/** What several types have in common. */
export const asItIs = <Content>(content: Content): Content => content;
export const noProblem = (): undefined => undefined;

export function compareNumbers(left: bigint | number, right: bigint | number): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

export function compareTexts(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** A literal of another type. */
export function otherLiteral(literal: Literal): Refused {
  switch (literal.kind) {
    case "integer":
      return { refused: "is a whole number" };
    case "decimal":
      return { refused: "is a decimal literal" };
    case "text":
    case "blob":
    case "boolean":
    case "uuid":
      return { refused: `is a ${literal.kind}` };
  }
}

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}
