// What code, contracts and documents cite by number or by name: claims, style rules, decisions, invariants, documents.
import { GENERIC_IN_COMMENTS, pathProblem } from "./paths.ts";
import { lineOf, type Reference } from "./reference.ts";
import { foldersAbove, isSeeded, type Repository } from "./repository.ts";

/** A claim in full, as docs/design states it. */
const CLAIM_STATED = /^- \*\*([A-Z]+\d+)\*\* /gm;
const CLAIMS_ELSEWHERE: ReadonlySet<string> = new Set(["SECURITY.md", "docs/operations.md"]);
const CLAIM = /\b(?:TX[DRC]?|LB[DC]?|OGD?|DDD?|SEC|OPS)\d+\b/g;
const RULE = /\brules? (\d+)\b/gi;
const RULE_STATED = /^(\d+)\. /gm;
const DECISION = /\bdecisions?[ /](\d{4})\b/gi;
const INVARIANT = /\bI\d+\b(?: of the ([\w-]+) README)?/g;
const INVARIANT_STATED = /^(?:[-*] |\| )\**(I\d+)\b/gm;
/** A file that a comment names. */
const FILE_NAMED = /(?<![\w@./:"-])[\w@-]+(?:\/[\w@.-]+)*\.(?:ts|mjs|md|proto)\b/g;
const COMMENT = /^\s*(?:\/\/|\/?\*)/;
/** A contract of others, which every language ships. */
const FOREIGN_FILE = /^google\/protobuf\/|^descriptor\.proto$/;
/** Documents that are cited by their first name. "The spec" has none: cite the claim. */
const DOCUMENT = /\b(?:ARCHITECTURE|STYLE|CONTRIBUTING|SECURITY|CHANGELOG)\b(?:\.md)?(?!_)|\bthe\sspec\b|\((?:spec)\b/g;
const DOCUMENTS: ReadonlyMap<string, string> = new Map([
  ["ARCHITECTURE", "ARCHITECTURE.md"],
  ["STYLE", "docs/style.md"],
  ["CONTRIBUTING", "CONTRIBUTING.md"],
  ["SECURITY", "SECURITY.md"],
  ["CHANGELOG", "CHANGELOG.md"],
]);

const CITING = /\.(?:ts|mjs|md|proto)$/;

type Resolve = (match: RegExpExecArray, file: string) => string | undefined;

export function citations(repository: Repository): Reference[] {
  const claims = claimsStated(repository);
  const rules = rulesStated(repository);
  const kinds: readonly (readonly [Reference["kind"], RegExp, Resolve])[] = [
    ["claim", CLAIM, ([claim]) => (claims.has(claim) ? undefined : "no document of claims states it in full")],
    ["rule", RULE, ([, rule]) => (rules.has(rule!) ? undefined : "docs/style.md has no such rule")],
    ["decision", DECISION, ([, number]) => decisionProblem(repository, number!)],
    ["document", DOCUMENT, ([name]) => documentProblem(repository, name)],
    ["invariant", INVARIANT, ([text, project], file) => invariantProblem(repository, file, text.split(" ")[0]!, project)],
  ];
  return repository.files
    .filter((file) => CITING.test(file) && !isSeeded(file))
    .flatMap((file) => [
      ...kinds.flatMap(([kind, pattern, resolve]) => cited(repository, file, kind, pattern, resolve)),
      ...filesInComments(repository, file),
    ]);
}

function filesInComments(repository: Repository, file: string): Reference[] {
  if (!/\.(?:ts|mjs)$/.test(file)) return [];
  const comments = [...repository.read(file).split("\n").entries()].filter(([, line]) => COMMENT.test(line));
  return comments.flatMap(([at, line]) =>
    [...line.matchAll(FILE_NAMED)]
      .filter(([text]) => !GENERIC_IN_COMMENTS.has(text) && !FOREIGN_FILE.test(text))
      .map(([text]) => ({ kind: "path", file, line: at + 1, text, problem: pathProblem(repository, file, text) })),
  );
}

function cited(repository: Repository, file: string, kind: Reference["kind"], pattern: RegExp, resolve: Resolve): Reference[] {
  const source = repository.read(file);
  return [...source.matchAll(pattern)].map((match) => ({
    kind,
    file,
    line: lineOf(source, match.index),
    text: match[0],
    problem: resolve(match, file),
  }));
}

function claimsStated(repository: Repository): Set<string> {
  const documents = repository.files.filter((file) => file.startsWith("docs/design/") || CLAIMS_ELSEWHERE.has(file));
  return new Set(documents.flatMap((file) => [...repository.read(file).matchAll(CLAIM_STATED)].map((match) => match[1]!)));
}

function rulesStated(repository: Repository): Set<string> {
  if (!repository.has("docs/style.md")) return new Set();
  return new Set([...repository.read("docs/style.md").matchAll(RULE_STATED)].map((match) => match[1]!));
}

function decisionProblem(repository: Repository, number: string): string | undefined {
  const found = repository.files.some((file) => file.startsWith(`docs/decisions/${number}-`));
  return found ? undefined : `docs/decisions has no ${number}`;
}

function documentProblem(repository: Repository, name: string): string | undefined {
  const document = DOCUMENTS.get(name.replace(".md", ""));
  if (document === undefined) return "there is no specification in the repository; cite a claim of docs/design";
  return repository.has(document) ? undefined : `there is no ${document}`;
}

/** An invariant is stated in the README of the nearest folder that states any, or of the project that is named. */
function invariantProblem(repository: Repository, file: string, invariant: string, project: string | undefined): string | undefined {
  const folders = project === undefined ? foldersAbove(file) : [`libs/${project}`, `apps/${project}`, `testing/${project}`];
  for (const readme of folders.map((folder) => `${folder}/README.md`)) {
    if (!repository.has(readme)) continue;
    const stated = new Set([...repository.read(readme).matchAll(INVARIANT_STATED)].map((match) => match[1]));
    if (stated.size > 0) return stated.has(invariant) ? undefined : `${readme} states no ${invariant}`;
  }
  return "no README above states invariants";
}
