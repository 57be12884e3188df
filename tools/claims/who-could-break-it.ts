// docs/design/who-could-break-it.md as data: per claim one cell for each way to break it. It has a table for each of these documents.
export const FILE = "docs/design/who-could-break-it.md";
export const WAYS = ["insert", "update", "delete", "delete + insert", "Execute", "takeover", "eviction", "restart", "wrong clock"] as const;

/** Documents whose claims are in its tables, with the series that are: those of one storage alone are left out. */
export const TABLED: Readonly<Record<string, RegExp>> = {
  "docs/design/transactions.md": /^TXD?\d/,
  "docs/design/unified.md": /^UN\d/,
  "docs/design/logged-batches.md": /^LBD?\d/,
  "docs/design/messages.md": /^DDD?\d/,
  "docs/design/objects.md": /^OGD?\d/,
};

export interface NamedTest {
  readonly file: string;
  readonly name: string;
}

export interface Tables {
  /** Columns of each table. */
  readonly columns: readonly (readonly string[])[];
  readonly rows: readonly { readonly claim: string; readonly cells: readonly string[] }[];
  /** Tests by the numbers that cells have. */
  readonly tests: ReadonlyMap<string, NamedTest>;
  /** Reasons by letter. */
  readonly reasons: ReadonlyMap<string, string>;
  readonly without: readonly string[];
}

export function tablesOf(document: string): Tables {
  const lines = document.split("\n").map((line) => line.trim());
  const cellsOf = (line: string): string[] =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
  const matches = (pattern: RegExp): RegExpExecArray[] => lines.map((line) => pattern.exec(line)).filter((match) => match !== null);
  const without = document.split("## Claims without a row")[1] ?? "";
  return {
    columns: lines.filter((line) => line.startsWith("| claim |")).map((header) => cellsOf(header).slice(1)),
    rows: matches(/^\| ([A-Z]+\d+) \|.*$/).map(([line, claim]) => ({ claim: claim!, cells: cellsOf(line).slice(1) })),
    tests: new Map(matches(/^(\d+)\. ([^:]+): `(.+)`$/).map(([, number, file, name]) => [number!, { file: file!, name: name! }])),
    reasons: new Map(matches(/^- \*\*([a-z])\*\* (.+)$/).map(([, letter, reason]) => [letter!, reason!])),
    without: [...without.matchAll(/^- ([A-Z]+\d[^:]*):/gm)].flatMap(([, claims]) => claims!.split(/,\s*/)),
  };
}
