import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Count {
  /** Declared functions, methods, constructors, accessors, and functions that a constant of a module names. */
  readonly functions: number;
  /** Calls of `assert`, and of functions whose names begin with it. */
  readonly assertions: number;
}

const COMMENT = /^\s*(\/\/|\/?\*)/;
const DECLARED = /^\s*(export )?(default )?(async )?function\b/;
const CONSTANT = /^(export )?const \w+(: .*)? = ((async )?(\(.*|\w+) ?(: .*)?=>|(async )?\($)/;
const METHOD = /^(\s+)((static|async|get|set|override) |\*)*#?(\w+)(<.*>)?\(/;
const KEYWORDS = new Set(["if", "for", "while", "switch", "catch", "return", "super", "await", "function"]);
const BODY = /\)(: .*)? \{(.*\})?$/;
const ASSERTION = /(?<!function )\bassert\w*\(/g;

/** Of a source text as the formatter leaves it. */
export function countIn(text: string): Count {
  const lines = text.split("\n").filter((line) => !COMMENT.test(line));
  let functions = 0;
  let assertions = 0;
  for (const [at, line] of lines.entries()) {
    if (DECLARED.test(line) || CONSTANT.test(line) || isMethod(lines, at)) functions += 1;
    assertions += line.match(ASSERTION)?.length ?? 0;
  }
  return { functions, assertions };
}

function isMethod(lines: readonly string[], at: number): boolean {
  const line = lines[at]!;
  const found = METHOD.exec(line);
  if (found === null || KEYWORDS.has(found[4]!)) return false;
  const [, indent] = found;
  const head = line.endsWith("(") ? (lines.slice(at + 1).find((next) => next.startsWith(`${indent})`)) ?? "") : line;
  return BODY.test(head) && !head.includes("=>");
}

/** Of a lib's production files. */
export function countInLib(root: string, lib: string): Count {
  const files = globSync("**/*.ts", { cwd: join(root, "libs", lib, "src") });
  const counts = files.filter(isProduction).map((file) => countIn(readFileSync(join(root, "libs", lib, "src", file), "utf8")));
  const sum = (of: (count: Count) => number): number => counts.reduce((total, count) => total + of(count), 0);
  return { functions: sum(({ functions }) => functions), assertions: sum(({ assertions }) => assertions) };
}

function isProduction(file: string): boolean {
  return !file.endsWith(".test.ts") && !/^(test|gen)\//.test(file);
}
