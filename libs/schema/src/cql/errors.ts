import { ConcordError } from "@concord/runtime";
import type { Position } from "./ast.ts";

export function syntaxError(at: Position, message: string): ConcordError {
  return new ConcordError("CQL_SYNTAX", `${at.line}:${at.column}: ${message}`, { metadata: placeOf(at) });
}

/** Valid CQL elsewhere, not here: names the construct and what to do instead. */
export function unsupported(at: Position, construct: string, advice: string): ConcordError {
  return new ConcordError("CQL_UNSUPPORTED", `${at.line}:${at.column}: ${construct} is not supported; ${advice}`, {
    metadata: { ...placeOf(at), construct },
  });
}

function placeOf(at: Position): Record<string, string> {
  return { line: at.line.toString(), column: at.column.toString() };
}
