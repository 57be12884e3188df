// Which lines of the protocol libs the simulated processes ran, by V8's own counts: what no scenario reaches is not tested by any seed.
import { globSync, readdirSync, readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";

export const PROTOCOL_LIBS: readonly string[] = [
  "dedup",
  "engine",
  "failure-detection",
  "group-log",
  "journal",
  "locks",
  "logged-batch",
  "objects",
  "ownership",
  "quorum",
  "repair",
  "rows",
  "store",
  "transactions",
];
const GAPS_SHOWN = 20;

interface CoverageRange {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

/** One script of one process, as V8 counted it. */
export interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly CoverageRange[] }[];
}

/** Of one source file. Lines are numbered from 1. */
interface FileLines {
  readonly file: string;
  readonly code: readonly number[];
  readonly covered: ReadonlySet<number>;
}

interface Gap {
  readonly file: string;
  readonly from: number;
  readonly to: number;
  readonly lines: number;
}

/** The lines with code in them: blank, comments, types and lone brackets are none. */
export function codeLines(source: string): number[] {
  const text = stripTypeScriptTypes(source).split("\n");
  return text.flatMap((line, at) => (/\w/.test(line) && !/^\s*(\/\/|\/\*|\*)/.test(line) ? [at + 1] : []));
}

/** Of these lines those that ran in any of the processes. */
export function coveredLines(source: string, code: readonly number[], scripts: readonly ScriptCoverage[]): Set<number> {
  const covered = new Set<number>();
  const text = source.split("\n");
  const starts = [0];
  for (const line of text) starts.push(starts.at(-1)! + line.length + 1);
  for (const { functions } of scripts) {
    const counts = countsOf(source.length, functions);
    for (const line of code) {
      const from = starts[line - 1]!;
      const words = [...text[line - 1]!.matchAll(/\w/g)];
      if (words.some(({ index }) => counts[from + index]! > 0)) covered.add(line);
    }
  }
  return covered;
}

/** By character: did it run? An inner range says more than the one around it. */
function countsOf(length: number, functions: ScriptCoverage["functions"]): Uint8Array {
  const counts = new Uint8Array(length);
  const ranges = functions.flatMap((one) => one.ranges);
  const nested = ranges.toSorted((left, right) => left.startOffset - right.startOffset || right.endOffset - left.endOffset);
  for (const { startOffset, endOffset, count } of nested) counts.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  return counts;
}

/** What the processes left in the folder (NODE_V8_COVERAGE), as a table by lib and the largest gaps. */
export function describeCoverage(root: string, folder: string): string {
  const byUrl = new Map<string, ScriptCoverage[]>();
  for (const name of readdirSync(folder)) {
    const { result } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { readonly result: readonly ScriptCoverage[] };
    for (const script of result) byUrl.set(script.url, [...(byUrl.get(script.url) ?? []), script]);
  }
  const rows: string[] = [];
  const all: FileLines[] = [];
  for (const lib of PROTOCOL_LIBS) {
    const files = sourcesOf(root, lib).map((file) => linesOf(root, file, byUrl));
    rows.push(row(lib, files));
    all.push(...files);
  }
  const gaps = all.flatMap(gapsOf).toSorted((left, right) => right.lines - left.lines);
  const largest = gaps.slice(0, GAPS_SHOWN).map(({ file, from, to, lines }) => `  ${file}:${from}-${to} (${lines} lines)`);
  return [...rows, row("all", all), "the largest parts that no seed ran:", ...largest].join("\n");
}

function sourcesOf(root: string, lib: string): string[] {
  const found = globSync(`libs/${lib}/src/**/*.ts`, { cwd: root });
  return found.filter((file) => !file.endsWith(".test.ts") && !file.includes("/test/")).toSorted();
}

function linesOf(root: string, file: string, byUrl: ReadonlyMap<string, readonly ScriptCoverage[]>): FileLines {
  const path = join(root, file);
  const source = readFileSync(path, "utf8");
  const code = codeLines(source);
  return { file: relative(root, path), code, covered: coveredLines(source, code, byUrl.get(pathToFileURL(path).href) ?? []) };
}

function gapsOf({ file, code, covered }: FileLines): Gap[] {
  const gaps: Gap[] = [];
  let open: { from: number; to: number; lines: number } | undefined;
  for (const line of code) {
    if (covered.has(line)) open = undefined;
    else if (open === undefined) gaps.push({ file, ...(open = { from: line, to: line, lines: 1 }) });
    else {
      open = { from: open.from, to: line, lines: open.lines + 1 };
      gaps[gaps.length - 1] = { file, ...open };
    }
  }
  return gaps;
}

function row(name: string, files: readonly FileLines[]): string {
  const code = files.reduce((sum, one) => sum + one.code.length, 0);
  const covered = files.reduce((sum, one) => sum + one.covered.size, 0);
  return `${name.padEnd(20)} ${String(covered).padStart(6)} of ${String(code).padStart(6)} lines ${((100 * covered) / Math.max(1, code)).toFixed(1).padStart(6)} %`;
}
