// What documents name: files and folders, links and their anchors, metrics, npm commands, identifiers.
import { posix } from "node:path";
import { anchors, codeSpans, fencedBlocks, linkTargets } from "./markdown.ts";
import { GENERIC_NAMES, pathProblem } from "./paths.ts";
import { lineOf, type Reference, type Span } from "./reference.ts";
import { isSeeded, type Repository } from "./repository.ts";

const METRIC_DEFINED = /\bname: "([a-z0-9]+(?:_[a-z0-9]+)+)"/g;
const SNAKE = /\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b/g;
const HUMPS = /(?<![\w->])#?(?:[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+|(?:[A-Z][a-z0-9]+){2,}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?![\w-])/g;
/** Settings of Cassandra, which documents name and no source does. */
const FOREIGN = new Set(["paxos_variant", "commitlog_sync"]);
const METRIC_SHAPE = /_(?:total|seconds|ratio|info)$/;
const VARIABLE = /\bCONCORD_([A-Z][A-Z0-9_]*)\b/g;
/** A flag of a command: an option by its own name, or a configuration key in kebab case. */
const FLAG = /(?<![\w-])--([a-z]+(?:-[a-z]+)*)\b/g;
const NPM_COMMAND = /\bnpm (?:run ([\w:-]+)|(test|start)\b)/g;
const FILE = /^(?!\*)[\w@.{},*-]+(?:\/[\w@.{},*-]+)*\.(?:ts|mjs|js|json|md|proto|yaml|yml|binpb|sh)$/;
const FOLDER = /^[\w@.{},*-]+(?:\/[\w@.{},*-]+)*\/$/;
/** Paths inside a longer text: a command line, a sample. */
const PATH_WITHIN = /(?<![\w./@-])(?:apps|libs|protos|tools|testing|docs|docker|deploy)\/[\w./-]*[\w-]/g;
/** What programs make where they run. */
const MADE_AT_RUN_TIME = /^(?:\.?\/?\.concord|\.nx|node_modules|dist)\b/;

export function documentReferences(repository: Repository): Reference[] {
  const world: World = {
    repository,
    metrics: metricsDefined(repository),
    words: wordsOfSources(repository),
    scripts: scriptsOf(repository),
  };
  const documents = repository.files.filter((file) => file.endsWith(".md")).flatMap((file) => referencesOf(world, file));
  return [...documents, ...repository.files.filter((file) => file.startsWith("docker/")).flatMap((file) => variablesOf(world, file))];
}

interface World {
  readonly repository: Repository;
  readonly metrics: ReadonlySet<string>;
  /** Every word of every source file. */
  readonly words: ReadonlySet<string>;
  readonly scripts: ReadonlySet<string>;
}

function referencesOf(world: World, file: string): Reference[] {
  const document = world.repository.read(file);
  const code = codeSpans(document);
  const all = [...code, ...fencedBlocks(document)];
  const found = [
    ...linkTargets(document).flatMap((span) => link(world.repository, file, span)),
    ...all.flatMap((span) => paths(world.repository, file, span)),
    ...all.flatMap((span) => named(span, NPM_COMMAND, "command", (text) => commandProblem(world, text))),
    ...all.flatMap((span) => named(span, FLAG, "command", (text) => flagProblem(world, text))),
    ...code.flatMap((span) => named(span, SNAKE, "metric", (text) => metricProblem(world, text))),
    ...code.flatMap((span) => named(span, HUMPS, "identifier", (text) => identifierProblem(world, text))),
  ];
  return found.map((reference) => ({ ...reference, file }));
}

function flagProblem({ words }: World, text: string): string | undefined {
  const known =
    words.has(camelCase(text.slice(2), "-")) ||
    text
      .slice(2)
      .split("-")
      .every((word) => words.has(word));
  return known ? undefined : "no source has an option of this name";
}

const camelCase = (text: string, separator: string): string =>
  text
    .split(separator)
    .map((word, at) => (at === 0 ? word : `${word.charAt(0).toUpperCase()}${word.slice(1)}`))
    .join("");

/** What containers set: CONCORD_DATA_FOLDER is the key dataFolder. */
function variablesOf({ repository, words }: World, file: string): Reference[] {
  const source = repository.read(file);
  return [...source.matchAll(VARIABLE)].map((match) => {
    const key = camelCase(match[1]!.toLowerCase(), "_");
    const problem = words.has(key) ? undefined : `no configuration has a key ${key}`;
    return { kind: "identifier", file, line: lineOf(source, match.index), text: match[0], problem };
  });
}

type Found = Omit<Reference, "file">;

function named(span: Span, pattern: RegExp, kind: Reference["kind"], problem: (text: string) => string | undefined): Found[] {
  return [...span.text.matchAll(pattern)].map(([text]) => ({ kind, line: span.line, text, problem: problem(text) }));
}

function link(repository: Repository, file: string, { text, line }: Span): Found[] {
  if (/^[a-z]+:/.test(text)) return [];
  const [target, anchor] = text.split("#");
  const resolved = target === "" ? file : posix.normalize(posix.join(posix.dirname(file), target!)).replace(/\/$/, "");
  if (!repository.has(resolved)) return [{ kind: "link", line, text, problem: "leads to no file" }];
  const missing = anchor !== undefined && !anchors(repository.read(resolved)).has(anchor);
  return [{ kind: "link", line, text, problem: missing ? `${resolved} has no heading with this anchor` : undefined }];
}

/** A span that is a path as a whole: it has an extension of ours or ends in a slash. Otherwise the paths from the root in it. */
function paths(repository: Repository, file: string, span: Span): Found[] {
  const { text, line } = span;
  if (MADE_AT_RUN_TIME.test(text) || GENERIC_NAMES.has(text)) return [];
  if (FILE.test(text) || FOLDER.test(text)) return [{ kind: "path", line, text, problem: pathProblem(repository, file, text) }];
  return named(span, PATH_WITHIN, "path", (path) => pathProblem(repository, file, path));
}

function commandProblem({ scripts }: World, text: string): string | undefined {
  const script = text.replace(/^npm (run )?/, "");
  return scripts.has(script) ? undefined : `package.json has no script ${script}`;
}

/** A name with underscores is a metric, a field of a contract or a word of the code. */
function metricProblem({ metrics, words }: World, text: string): string | undefined {
  if (metrics.has(text) || FOREIGN.has(text)) return undefined;
  if (METRIC_SHAPE.test(text)) return "not in the list of any metrics.ts";
  return words.has(text) ? undefined : "neither a metric nor a name in any source";
}

function identifierProblem({ words }: World, text: string): string | undefined {
  // A generated type that may be encoded is named after its message: ReadRequestInit.
  return words.has(text.replace("#", "").replace(/Init$/, "")) || words.has(text) ? undefined : "a name that no source has";
}

/** The closed lists: every `metrics.ts`. */
function metricsDefined(repository: Repository): Set<string> {
  const lists = repository.files.filter((file) => file.endsWith("metrics.ts"));
  return new Set(lists.flatMap((file) => [...repository.read(file).matchAll(METRIC_DEFINED)].map((match) => match[1]!)));
}

function wordsOfSources(repository: Repository): Set<string> {
  const sources = repository.files.filter(
    (file) => /\.(?:ts|mjs|proto|json|yaml|yml)$|Dockerfile$/.test(file) && file !== "package-lock.json" && !isSeeded(file),
  );
  return new Set(sources.flatMap((file) => repository.read(file).match(/\w+/g) ?? []));
}

function scriptsOf(repository: Repository): Set<string> {
  const { scripts } = JSON.parse(repository.read("package.json")) as { scripts?: Record<string, string> };
  return new Set(Object.keys(scripts ?? {}));
}
