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

/** A condition on stored values: only a transaction decides that correctly. */
export function useTransaction(at: Position): ConcordError {
  return new ConcordError(
    "USE_TRANSACTION",
    `${at.line}:${at.column}: IF conditions are not supported; read, check and write in a transaction`,
    {
      metadata: placeOf(at),
    },
  );
}

function placeOf(at: Position): Record<string, string> {
  return { line: at.line.toString(), column: at.column.toString() };
}
