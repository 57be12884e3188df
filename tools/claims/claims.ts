// The claims of docs/design, SECURITY.md and docs/operations.md: each in full ("- **TXD7** ..."), and in a table with its status and its tests. Sentence, summary and status
// are written by hand; the tests are found by the tags in their names ("[TXD7] commit: ..."). `node tools/claims/claims.ts` writes them
// in; a test checks that no row promises what nothing tests.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");
export const DESIGN_FILES = [
  "docs/design/transactions.md",
  "docs/design/unified.md",
  "docs/design/logged-batches.md",
  "docs/design/objects.md",
  "docs/design/messages.md",
  "SECURITY.md",
  "docs/operations.md",
] as const;
const TEST_ROOTS = ["libs", "apps", "testing", "tools", "protos"];
/** Those of real engines too: `npm run test:engines`. */
const TEST_FILE = /\.(?:test|cassandra|cassandra-racks|cassandra-roles|kafka|ceph)\.ts$/;

/** kept: the whole claim is tested. part: the row says what is not there yet. later: not promised yet. */
export type Status = "kept" | "part" | "later";

export interface Row {
  readonly claim: string;
  readonly text: string;
  readonly status: Status;
  /** Test files with the claim's tag, as the document lists them. */
  readonly files: readonly string[];
}

const ROW = /^\| ([A-Z]+\d+) \| (.*) \| (kept|part|later) \| (.*) \|$/;
const SENTENCE = /^- \*\*([A-Z]+\d+)\*\* (.+(?:\n {2}.+)*)/gm;
const TAG = /\[((?:[A-Z]+\d+[ ,/]*)+)\]/g;
const TEST_NAME = /\b(?:test|it)\(\s*(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`|'((?:[^'\\]|\\.)*)')/g;

export function rowsOf(document: string): Row[] {
  return document.split("\n").flatMap((line) => {
    const match = ROW.exec(line);
    if (match === null) return [];
    const files = [...match[4]!.matchAll(/`([^`]+)`/g)].map((file) => file[1]!);
    return [{ claim: match[1]!, text: match[2]!, status: match[3] as Status, files }];
  });
}

/** The claims in full, by number. Throws when a number is stated twice. */
export function sentencesOf(document: string): Map<string, string> {
  const sentences = new Map<string, string>();
  for (const [, claim, text] of document.matchAll(SENTENCE)) {
    if (sentences.has(claim!)) throw new Error(`${claim} is stated twice`);
    sentences.set(claim!, text!.replaceAll(/\s+/g, " "));
  }
  return sentences;
}

/** The names of a file's tests, as its source has them. */
export function testNamesIn(source: string): string[] {
  return Array.from(source.matchAll(TEST_NAME), (name) => name[1] ?? name[2] ?? name[3]!);
}

/** The tags in the names of a file's tests. */
export function tagsIn(source: string): Set<string> {
  return new Set(testNamesIn(source).flatMap(tagsOf));
}

/** The tags in the name of a test. */
export function tagsOf(name: string): string[] {
  return [...name.matchAll(TAG)].flatMap((tag) => tag[1]!.split(/[ ,/]+/).filter((one) => one !== ""));
}

/** Test files by the claims their tests name. */
export function testsByClaim(root: string): Map<string, string[]> {
  const byClaim = new Map<string, string[]>();
  for (const file of TEST_ROOTS.flatMap((folder) => testFiles(join(root, folder)))) {
    for (const tag of tagsIn(readFileSync(file, "utf8"))) byClaim.set(tag, [...(byClaim.get(tag) ?? []), relative(root, file)]);
  }
  return byClaim;
}

/** The document with the last column as the tests have it. */
export function withTests(document: string, tests: ReadonlyMap<string, readonly string[]>): string {
  const lines = document.split("\n").map((line) => {
    const match = ROW.exec(line);
    if (match === null) return line;
    const files = (tests.get(match[1]!) ?? []).toSorted().map((file) => `\`${file}\``);
    return `| ${match[1]} | ${match[2]} | ${match[3]} | ${files.join(" ") || "-"} |`;
  });
  return lines.join("\n");
}

function testFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && TEST_FILE.test(entry.name) && !entry.parentPath.includes("node_modules"))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

if (process.argv[1] === import.meta.filename) {
  const tests = testsByClaim(ROOT);
  for (const file of DESIGN_FILES) {
    const path = join(ROOT, file);
    const rows = rowsOf(readFileSync(path, "utf8"));
    writeFileSync(path, withTests(readFileSync(path, "utf8"), tests));
    const count = (status: Status): number => rows.filter((row) => row.status === status).length;
    console.log(`${file}: ${rows.length} claims, ${count("kept")} kept, ${count("part")} in part, ${count("later")} later`);
  }
}
