// The edits the oracle tries: for every project its sources, tests, README and settings, and every kind of file outside the projects.
import { existsSync, globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Expectation } from "./expected.ts";

/** A failure an edit really brings: the target that must turn red, and the project whose task it is. */
export interface SeededFailure {
  readonly target: string;
  readonly project: string;
}

export interface Edit {
  readonly name: string;
  /** File contents by path after the edit; undefined: the file is gone. */
  readonly files: Readonly<Record<string, string | undefined>>;
  readonly expected: ReadonlySet<string>;
  readonly failure?: SeededFailure;
}

/** Source text that breaks exactly one target when appended to a TypeScript file. */
const FAILURES: readonly { readonly target: string; readonly text: string }[] = [
  { target: "typecheck", text: 'export const seeded: number = "text";\n' },
  { target: "test", text: 'throw new Error("seeded");\n' },
  { target: "lint", text: "export const seeded = (value: any): unknown => value;\n" },
  { target: "boundaries", text: 'import "no-such-package";\n' },
  { target: "format-check", text: "export   const seeded=1;\n" },
];

const SHARED_FILES = ["package.json", "nx.json", "tsconfig.base.json", ".oxlintrc.json", ".oxfmtrc.json", ".gitignore"];
const LOCKED_PACKAGES = ["kafkajs", "level", "@grpc/grpc-js"];
const OTHER_FILES = [
  "README.md",
  "LICENSE",
  "docs/ci.md",
  ".ci/run",
  "docs/decisions/seeded.md",
  "docs/operations.md",
  "docker/Dockerfile",
  "deploy/helm/concord/values.yaml",
  ".dockerignore",
  ".github/workflows/ci.yml",
];
const TOOL_FILES = [
  "nx/plugin.mjs",
  "nx/run-tests.ts",
  "boundaries/rules.ts",
  "boundaries/boundaries.test.ts",
  "lint-rules/no-ambient.mjs",
  "lint-rules/lint-rules.test.ts",
  "protos/generate.ts",
  "protos/contracts.test.ts",
  "affected/oracle.ts",
  "bootstrap/main.mjs",
  "claims/claims.ts",
];
const PROJECTS_PER_KIND = 3;
const SOURCES = 10;
const TESTS = 6;
/** Every one costs a run of its task. */
const FAILURES_PER_TARGET = 2;

/** All edits for the work tree in `root`; the files they name exist there (or are new). */
export function generateEdits(root: string, expectation: Expectation): Edit[] {
  const read = (path: string): string => (existsSync(join(root, path)) ? readFileSync(join(root, path), "utf8") : "");
  const touch = (path: string): Edit => ({
    name: `touch ${path}`,
    files: { [path]: touched(path, read(path)) },
    expected: expectation.of(path),
  });
  const { projects } = expectation;
  const roots = projects.map((project) => project.root);
  const existing = (path: string): boolean => existsSync(join(root, path));
  const firstOfEach = (pattern: string): string[] =>
    roots.flatMap((folder) => globSync(`${folder}/${pattern}`, { cwd: root }).sort().slice(0, 1));
  const some = (paths: readonly string[], count = PROJECTS_PER_KIND): string[] =>
    paths.filter((_, index) => index % Math.ceil(paths.length / count) === 0);

  const failing = some(roots, FAILURES.length * FAILURES_PER_TARGET);
  const sources = failing.flatMap((folder, index) => sourceEdit(root, folder, index, expectation));
  const plain = firstOfEach("src/index.ts").filter((path) => !sources.some(({ files }) => path in files));
  const protoFiles = globSync("protos/concord/**/*.proto", { cwd: root }).sort();
  return [
    ...sources,
    touch("libs/runtime/src/index.ts"),
    ...some(plain, SOURCES).map(touch),
    ...some(firstOfEach("**/*.test.ts"), TESTS).map(touch),
    ...some(firstOfEach("README.md")).map(touch),
    ...some(firstOfEach("tsconfig.json")).map(touch),
    ...some(firstOfEach("serve.json")).map(touch),
    ...some(firstOfEach("package.json")).map(touch),
    ...some(firstOfEach("src/config.ts")).map(touch),
    ...protoFiles.slice(0, PROJECTS_PER_KIND).map(touch),
    ...["protos/buf.yaml", "protos/retries.json", "protos/buf.gen.yaml", "protos/vendored.json", "protos/released.binpb"]
      .filter(existing)
      .map(touch),
    ...SHARED_FILES.map(touch),
    ...LOCKED_PACKAGES.map((name) => ({
      name: `another ${name} in package-lock.json`,
      files: { "package-lock.json": relocked(read("package-lock.json"), name) },
      expected: expectation.ofPackage(name),
    })),
    ...TOOL_FILES.map((path) => touch(`tools/${path}`)),
    touch("docs/design/seeded.md"),
    ...OTHER_FILES.map(touch),
    ...contractBreak(root, protoFiles, read, expectation),
    ...newAndGone(root, expectation),
  ];
}

/** A failure appended to a source file of the project there, a different kind for each project in turn. */
function sourceEdit(root: string, folder: string, index: number, expectation: Expectation): Edit[] {
  const project = expectation.projects.find((candidate) => candidate.root === folder)!.name;
  const sources = globSync(`${folder}/{,src/**/}*.ts`, {
    cwd: root,
    exclude: (file) => file.endsWith(".test.ts") || file === "gen",
  }).sort();
  const tested = sources.find((path) => importedByItsTest(root, path));
  const failure = FAILURES[index % FAILURES.length]!;
  const { target, text } = failure.target === "test" && tested === undefined ? FAILURES[0]! : failure;
  const path = target === "test" ? tested : (sources.find((source) => basename(source) === "index.ts") ?? sources[0]);
  if (path === undefined) return [];
  const files = { [path]: `${readFileSync(join(root, path), "utf8")}${text}` };
  return [{ name: `${target} failure in ${path}`, files, expected: expectation.of(path), failure: { target, project } }];
}

function importedByItsTest(root: string, path: string): boolean {
  const test = join(root, path.replace(/\.ts$/, ".test.ts"));
  return existsSync(test) && readFileSync(test, "utf8").includes(`} from "./${basename(path)}"`);
}

function contractBreak(root: string, protoFiles: readonly string[], read: (path: string) => string, expectation: Expectation): Edit[] {
  // What was never released may still change.
  const released = readFileSync(join(root, "protos/released.binpb"), "latin1");
  const path = protoFiles.find((file) => released.includes(file.slice("protos/".length)) && / = 2;/.test(read(file)));
  if (path === undefined) return [];
  const files = { [path]: read(path).replace(/ = 2;/, " = 2999;") };
  return [
    {
      name: `contract break in ${path}`,
      files,
      expected: expectation.of(path),
      failure: { target: "contracts", project: expectation.ownerOf(path)!.name },
    },
  ];
}

function newAndGone(root: string, expectation: Expectation): Edit[] {
  const manifest = { name: "@concord/seeded", version: "0.1.0", private: true, type: "module", nx: { tags: ["layer:base"] } };
  const newProject = {
    "libs/seeded/package.json": JSON.stringify(manifest),
    "libs/seeded/tsconfig.json": '{ "extends": "../../tsconfig.base.json", "include": ["src"] }\n',
    "libs/seeded/src/index.ts": "export {};\n",
  };
  const gone = globSync("libs/codec/src/*.ts", { cwd: root }).sort();
  const goneSource = gone.find((path) => !path.endsWith(".test.ts"))!;
  const goneTest = gone.find((path) => path.endsWith(".test.ts"));
  return [
    {
      name: "new source file",
      files: { "libs/ports/src/seeded.ts": "export {};\n" },
      expected: expectation.of("libs/ports/src/seeded.ts"),
    },
    {
      name: "new test file",
      files: { "libs/ports/src/seeded.test.ts": "export {};\n" },
      expected: expectation.of("libs/ports/src/seeded.test.ts"),
    },
    {
      name: `moved to another project: ${goneSource}`,
      files: { [goneSource]: undefined, "libs/checksums/src/seeded.ts": "export {};\n" },
      expected: new Set([...expectation.of(goneSource), ...expectation.of("libs/checksums/src/seeded.ts")]),
    },
    { name: "new project", files: newProject, expected: expectation.ofNewProject(manifest.name) },
    { name: `gone: ${goneSource}`, files: { [goneSource]: undefined }, expected: expectation.of(goneSource) },
    ...(goneTest === undefined
      ? []
      : [{ name: `gone: ${goneTest}`, files: { [goneTest]: undefined }, expected: expectation.of(goneTest) }]),
  ];
}

/** The lock file with other bytes behind the package's name. */
function relocked(text: string, name: string): string {
  const lock = JSON.parse(text) as { packages: Record<string, { integrity?: string }> };
  const entry = lock.packages[`node_modules/${name}`]!;
  lock.packages[`node_modules/${name}`] = { ...entry, integrity: `sha512-AAAA${entry.integrity!.slice("sha512-AAAA".length)}` };
  return `${JSON.stringify(lock, undefined, 2)}\n`;
}

/** A change that keeps the file valid. */
function touched(path: string, text: string): string {
  if (path.endsWith(".json")) return `${text}\n`;
  if (path.endsWith(".ts") || path.endsWith(".mjs") || path.endsWith(".proto")) return `${text}// seeded\n`;
  return `${text}# seeded\n`;
}
