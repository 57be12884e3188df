import { parse, type Statement } from "@concord/schema";
import { PARSED_STATEMENTS_MAX } from "../limits.ts";

/** Parsed statements by text: clients send the same few with other binds. */
export class ParsedStatements {
  readonly #parsed = new Map<string, Statement>();

  /** CQL_SYNTAX, CQL_UNSUPPORTED, LIMIT_EXCEEDED. */
  of(text: string): Statement {
    const known = this.#parsed.get(text);
    if (known !== undefined) return known;
    const statement = parse(text);
    this.#parsed.set(text, statement);
    if (this.#parsed.size > PARSED_STATEMENTS_MAX) this.#parsed.delete(this.#parsed.keys().next().value!);
    return statement;
  }
}

/** Tables a statement names: the schema must know them before it is planned. */
export function tablesOf({ body }: Statement): readonly string[] {
  if (body.kind === "batch") return body.writes.map((write) => write.table);
  return [body.table];
}
