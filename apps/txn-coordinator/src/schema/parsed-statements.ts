import { BoundedCache, type BoundedCacheLimits } from "@concord/runtime";
import { parse, type Statement } from "@concord/schema";
import { PARSED_STATEMENTS } from "../limits.ts";

/** Parsed statements by text: clients send the same few with other binds. */
export class ParsedStatements {
  readonly #parsed: BoundedCache<string, Statement>;

  constructor(limits: BoundedCacheLimits = PARSED_STATEMENTS) {
    this.#parsed = new BoundedCache(limits);
  }

  /** CQL_SYNTAX, CQL_UNSUPPORTED, LIMIT_EXCEEDED. */
  of(text: string): Statement {
    return this.#parsed.getOrMake(text, () => parse(text));
  }
}

/** Tables a statement names: the schema must know them before it is planned. */
export function tablesOf({ body }: Statement): readonly string[] {
  if (body.kind === "batch") return body.writes.map((write) => write.table);
  return [body.table];
}
