// docs/design/who-could-break-it.md as data: per claim one cell for each way to break it.
export const FILE = "docs/design/who-could-break-it.md";
export const WAYS = ["insert", "update", "delete", "delete + insert", "Execute", "takeover", "eviction", "restart", "wrong clock"] as const;

export interface NamedTest {
  readonly file: string;
  readonly name: string;
}

export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly { readonly claim: string; readonly cells: readonly string[] }[];
  /** Tests by the numbers that cells have. */
  readonly tests: ReadonlyMap<string, NamedTest>;
  /** Reasons by letter. */
  readonly reasons: ReadonlyMap<string, string>;
  readonly without: readonly string[];
}

export function tableOf(document: string): Table {
  const lines = document.split("\n").map((line) => line.trim());
  const cellsOf = (line: string): string[] =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
  const header = lines.find((line) => line.startsWith("| claim |")) ?? "";
  const matches = (pattern: RegExp): RegExpExecArray[] => lines.map((line) => pattern.exec(line)).filter((match) => match !== null);
  const without = document.split("## Claims without a row")[1] ?? "";
  return {
    columns: cellsOf(header).slice(1),
    rows: matches(/^\| (TX[A-Z]?\d+) \|.*$/).map(([line, claim]) => ({ claim: claim!, cells: cellsOf(line).slice(1) })),
    tests: new Map(matches(/^(\d+)\. ([^:]+): `(.+)`$/).map(([, number, file, name]) => [number!, { file: file!, name: name! }])),
    reasons: new Map(matches(/^- \*\*([a-z])\*\* (.+)$/).map(([, letter, reason]) => [letter!, reason!])),
    without: [...without.matchAll(/^- (TX[^:]+):/gm)].flatMap(([, claims]) => claims!.split(/,\s*/)),
  };
}
