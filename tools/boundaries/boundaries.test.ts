// Every kind of violation is seeded once in a small workspace and must be caught; nothing here or in the checker reads the Nx graph.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { importsOf } from "./imports.ts";
import { nonNullIn } from "./non-null.ts";
import { projectViolations, workspaceViolations } from "./rules.ts";
import { readWorkspace } from "./workspace.ts";

const WORKSPACE_ROOT = join(import.meta.dirname, "../..");

interface Seeded {
  readonly name: string;
  readonly rule: string | undefined;
  /** package.json fields by project folder, merged over the sound ones. */
  readonly manifests?: Readonly<Record<string, object>>;
  readonly files?: Readonly<Record<string, string>>;
}

/** A sound workspace: one project per layer, every dependency used. */
const SOUND: Readonly<Record<string, { layer: string; imports: readonly string[] }>> = {
  "libs/runtime": { layer: "base", imports: [] },
  "libs/ports": { layer: "ports", imports: ["@concord/runtime"] },
  "libs/locks": { layer: "domain", imports: ["@concord/ports", "@concord/runtime"] },
  "libs/engine": { layer: "engine", imports: ["@concord/locks"] },
  protos: { layer: "protos", imports: ["@grpc/proto-loader"] },
  "libs/rpc": { layer: "kit", imports: ["@concord/protos", "@grpc/grpc-js"] },
  "libs/adapter-ring": { layer: "adapters", imports: ["@concord/ports", "@concord/locks", "@concord/rpc"] },
  "apps/proxy": { layer: "app", imports: ["@concord/engine", "@concord/adapter-ring"] },
  "libs/simulation": { layer: "testing", imports: ["@concord/proxy", "@concord/ports"] },
  "testing/demo": { layer: "testing", imports: ["@concord/simulation", "@concord/proxy"] },
  "tools/report": { layer: "tools", imports: ["@concord/simulation", "@concord/proxy"] },
};

/** Kept out of the text, so that the checker does not take our samples for imports of this file. */
const IMPORT = "import";
const imports = (...specifiers: readonly string[]): string => specifiers.map((specifier) => `import "${specifier}";\n`).join("");
const depends = (...names: readonly string[]): object => ({ dependencies: Object.fromEntries(names.map((name) => [name, "*"])) });

/** A testing project without imports of its own: contract suites, in-memory implementations. */
const SUITES = { "libs/suites": { nx: { tags: ["layer:testing"] } } };

/** One file of libs/engine imports what libs/locks gives to tests. */
const testingEntry = (file: string): Pick<Seeded, "manifests" | "files"> => ({
  manifests: { "libs/locks": { exports: { ".": "./src/index.ts", "./testing": "./src/test/fixture.ts" } } },
  files: { [`libs/engine/src/${file}`]: imports("@concord/locks/testing"), "libs/locks/src/test/fixture.ts": "export {};" },
});

const layerCases: readonly (readonly [folder: string, dependency: string])[] = [
  ["libs/runtime", "@concord/ports"],
  ["libs/ports", "@concord/locks"],
  ["libs/locks", "@concord/engine"],
  ["libs/locks", "@concord/rpc"],
  ["libs/locks", "@concord/adapter-ring"],
  ["libs/engine", "@concord/adapter-ring"],
  ["libs/engine", "@concord/protos"],
  ["protos", "@concord/runtime"],
  ["libs/rpc", "@concord/ports"],
  ["libs/adapter-ring", "@concord/engine"],
  ["apps/proxy", "@concord/simulation"],
  ["apps/proxy", "@concord/report"],
  ["libs/simulation", "@concord/report"],
  ["libs/rpc", "@concord/demo"],
];

const SEEDED: readonly Seeded[] = [
  { name: "a sound workspace", rule: undefined },
  { name: "an untagged project", rule: "untagged", manifests: { "libs/locks": { nx: {} } } },
  { name: "a layer without rules", rule: "untagged", manifests: { "libs/locks": { nx: { tags: ["layer:misc"] } } } },
  { name: "two layers at once", rule: "untagged", manifests: { "libs/locks": { nx: { tags: ["layer:domain", "layer:app"] } } } },
  ...layerCases.map(([folder, dependency]): Seeded => ({
    name: `${folder} depends on ${dependency}`,
    rule: "layer",
    manifests: { [folder]: depends(...SOUND[folder]!.imports, dependency) },
    files: { [`${folder}/src/seeded.ts`]: imports(dependency) },
  })),
  {
    name: "a circle of files",
    rule: "circle",
    files: {
      "libs/runtime/src/a.ts": imports("./b.ts"),
      "libs/runtime/src/b.ts": imports("./c.ts"),
      "libs/runtime/src/c.ts": imports("./a.ts"),
    },
  },
  {
    name: "a circle of types",
    rule: "circle",
    files: { "libs/runtime/src/a.ts": 'import type { B } from "./b.ts";', "libs/runtime/src/b.ts": 'import type { A } from "./a.ts";' },
  },
  {
    name: "two ways to one file",
    rule: undefined,
    files: {
      "libs/runtime/src/a.ts": imports("./b.ts", "./c.ts"),
      "libs/runtime/src/b.ts": imports("./c.ts"),
      "libs/runtime/src/c.ts": "export {};",
    },
  },
  { name: "an undeclared workspace import", rule: "undeclared", files: { "apps/proxy/src/a.ts": imports("@concord/locks") } },
  { name: "an undeclared type import", rule: "undeclared", files: { "apps/proxy/src/a.ts": 'import type { A } from "@concord/locks";' } },
  {
    name: "an undeclared re-export",
    rule: "undeclared",
    files: { "apps/proxy/src/a.ts": 'export {\n  a,\n  b,\n} from "@concord/locks";' },
  },
  {
    name: "an undeclared dynamic import",
    rule: "undeclared",
    files: { "apps/proxy/src/a.ts": `void (await ${IMPORT}("@concord/locks"));` },
  },
  { name: "an undeclared import of a test", rule: "undeclared", files: { "apps/proxy/src/a.test.ts": imports("@concord/locks") } },
  { name: "an undeclared npm package", rule: "undeclared", files: { "libs/rpc/src/a.ts": imports("zod") } },
  { name: "a development tool in production code", rule: "undeclared", files: { "libs/rpc/src/a.ts": imports("fast-check") } },
  { name: "a development tool in a test", rule: undefined, files: { "libs/rpc/src/a.test.ts": imports("fast-check") } },
  {
    name: "an unused workspace dependency",
    rule: "unused",
    manifests: { "apps/proxy": depends(...SOUND["apps/proxy"]!.imports, "@concord/rpc") },
  },
  { name: "an unused npm package", rule: "unused", manifests: { "libs/rpc": depends(...SOUND["libs/rpc"]!.imports, "pino") } },
  {
    name: "a dependency that does not exist",
    rule: "unknown",
    manifests: { "apps/proxy": depends(...SOUND["apps/proxy"]!.imports, "@concord/nowhere") },
  },
  {
    name: "a project it reads by path",
    rule: undefined,
    manifests: { "tools/report": { nx: { tags: ["layer:tools"], implicitDependencies: ["@concord/rpc"] } } },
  },
  {
    name: "a project it reads by path that does not exist",
    rule: "unknown",
    manifests: { "tools/report": { nx: { tags: ["layer:tools"], implicitDependencies: ["@concord/nowhere"] } } },
  },
  {
    name: "a project of a layer above, read by path",
    rule: "layer",
    manifests: { "libs/rpc": { nx: { tags: ["layer:kit"], implicitDependencies: ["@concord/proxy"] } } },
  },
  {
    name: "a relative import into another project",
    rule: "leaves",
    files: { "apps/proxy/src/a.ts": imports("../../../libs/locks/src/index.ts") },
  },
  { name: "a relative import of the own project", rule: undefined, files: { "apps/proxy/src/rpc/a.ts": imports("../index.ts") } },
  { name: "a deep import", rule: "deep", files: { "apps/proxy/src/a.ts": imports("@concord/engine/src/index.ts") } },
  { name: "node:* in base", rule: "pure", files: { "libs/runtime/src/a.ts": imports("node:fs") } },
  { name: "a built-in without node: in ports", rule: "pure", files: { "libs/ports/src/a.ts": imports("fs/promises") } },
  { name: "node:* in domain", rule: "pure", files: { "libs/locks/src/a.ts": imports("node:crypto") } },
  { name: "node:* in a domain test", rule: undefined, files: { "libs/locks/src/a.test.ts": imports("node:test", "node:assert/strict") } },
  {
    name: "node:* in a file for domain tests",
    rule: undefined,
    files: { "libs/locks/src/test/fixture.ts": imports("node:assert/strict") },
  },
  { name: "production code importing a file for tests", rule: "test", files: { "libs/locks/src/a.ts": imports("./test/fixture.ts") } },
  { name: "a test importing a file for tests", rule: undefined, files: { "libs/locks/src/a.test.ts": imports("./test/fixture.ts") } },
  {
    name: "a test importing a testing project declared for tests",
    rule: undefined,
    manifests: { "libs/engine": { ...depends("@concord/locks"), devDependencies: { "@concord/suites": "*" } }, ...SUITES },
    files: { "libs/engine/src/a.test.ts": imports("@concord/suites") },
  },
  {
    name: "production code importing what is declared for tests",
    rule: "undeclared",
    manifests: { "libs/engine": { ...depends("@concord/locks"), devDependencies: { "@concord/suites": "*" } }, ...SUITES },
    files: { "libs/engine/src/a.ts": imports("@concord/suites") },
  },
  {
    name: "a testing project among production dependencies",
    rule: "layer",
    manifests: { "libs/engine": depends("@concord/locks", "@concord/suites"), ...SUITES },
    files: { "libs/engine/src/a.test.ts": imports("@concord/suites") },
  },
  { name: "production code importing another project's testing entry", rule: "test", ...testingEntry("a.ts") },
  { name: "a test importing another project's testing entry", rule: undefined, ...testingEntry("a.test.ts") },
  { name: "node:* in a kit", rule: undefined, files: { "libs/rpc/src/a.ts": imports("node:fs") } },
  {
    name: "an npm package in domain, declared",
    rule: "pure",
    manifests: { "libs/locks": depends(...SOUND["libs/locks"]!.imports, "level") },
    files: { "libs/locks/src/a.ts": imports("level") },
  },
  {
    name: "a client imported by two libs",
    rule: "client",
    manifests: { "libs/adapter-ring": depends(...SOUND["libs/adapter-ring"]!.imports, "@grpc/grpc-js") },
    files: { "libs/adapter-ring/src/a.ts": imports("@grpc/grpc-js") },
  },
  {
    name: "a client imported by an app",
    rule: "client",
    manifests: { "apps/proxy": depends(...SOUND["apps/proxy"]!.imports, "level") },
    files: { "apps/proxy/src/a.ts": imports("level") },
  },
  {
    name: "a client imported by one lib and by tools",
    rule: undefined,
    manifests: { "tools/report": depends(...SOUND["tools/report"]!.imports, "@grpc/grpc-js") },
    files: { "tools/report/a.ts": imports("@grpc/grpc-js") },
  },
  {
    name: "two libs that import each other",
    rule: "cycle",
    manifests: {
      "libs/runtime": depends("@concord/codec"),
      "libs/codec": { ...depends("@concord/runtime"), nx: { tags: ["layer:base"] } },
    },
    files: { "libs/runtime/src/a.ts": imports("@concord/codec"), "libs/codec/src/index.ts": imports("@concord/runtime") },
  },
  { name: "a project of another version", rule: "version", manifests: { "libs/rpc": { version: "1.0.1" } } },
  { name: "a file called utils", rule: "name", files: { "libs/locks/src/utils.ts": "export {};" } },
  { name: "a file called lock-helpers", rule: "name", files: { "libs/locks/src/lock-helpers.ts": "export {};" } },
  { name: "a folder called common", rule: "name", files: { "libs/locks/src/common/locks.ts": "export {};" } },
  { name: "a file called manager", rule: "name", files: { "libs/locks/src/manager.test.ts": "export {};" } },
];

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-boundaries-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function seed({ manifests = {}, files = {} }: Pick<Seeded, "manifests" | "files">): void {
  const top = {
    name: "sample",
    version: "1.0.0",
    type: "module",
    workspaces: ["apps/*", "libs/*", "protos", "testing/*", "tools/*"],
    devDependencies: { "fast-check": "4" },
    optionalDependencies: {},
  };
  write("package.json", JSON.stringify(top));
  for (const root of new Set([...Object.keys(SOUND), ...Object.keys(manifests)])) {
    const sound = SOUND[root] ?? { layer: "", imports: [] };
    const manifest = {
      name: `@concord/${root.split("/").at(-1)}`,
      version: "1.0.0",
      exports: { ".": "./src/index.ts" },
      nx: { tags: [`layer:${sound.layer}`] },
      ...depends(...sound.imports),
      ...manifests[root],
    };
    write(`${root}/package.json`, JSON.stringify(manifest));
    write(`${root}/src/index.ts`, imports(...sound.imports));
  }
  for (const [path, text] of Object.entries(files)) write(path, text);
}

function rulesBroken(): string[] {
  const workspace = readWorkspace(folder);
  const violations = [...workspace.projects.flatMap((project) => projectViolations(workspace, project)), ...workspaceViolations(workspace)];
  return [...new Set(violations.map((violation) => violation.rule))];
}

describe("boundaries", () => {
  for (const seeded of SEEDED) {
    test(`boundaries: ${seeded.name}: ${seeded.rule === undefined ? "accepted" : `refused by ${seeded.rule}`}`, () => {
      seed(seeded);
      const broken = rulesBroken();
      if (seeded.rule === undefined) assert.deepEqual(broken, []);
      else assert.ok(broken.includes(seeded.rule), `rules broken: ${broken.join(", ") || "none"}`);
    });
  }

  test("boundaries: non-null assertions beyond the table's number: refused, with the files that have most; those of tests do not count", () => {
    const one = "export const a = (b: { c?: string }): number => b.c!.length;\n";
    seed({ files: { "apps/proxy/src/a.ts": `${one}${one}`, "apps/proxy/src/b.ts": one, "libs/locks/src/c.test.ts": one } });
    const workspace = readWorkspace(folder);
    const broken = workspace.projects.flatMap((project) => projectViolations(workspace, project)).filter(({ rule }) => rule === "non-null");
    const message = "3 non-null assertions (`!`), at most 0; most in src/a.ts (2), src/b.ts (1)";
    assert.deepEqual(broken, [{ rule: "non-null", where: "apps/proxy", message }]);
  });

  test("boundaries: run by Nx with an empty cache, then with a filled one: the seeded violation is caught both times", () => {
    const undeclared = { files: { "apps/proxy/src/a.ts": imports("@concord/locks") } };
    seed({});
    for (const path of ["nx.json", "tools/nx", "tools/protos/package.json", "tools/boundaries"]) {
      cpSync(join(WORKSPACE_ROOT, path), join(folder, path), { recursive: true, filter: (source) => !source.endsWith(".test.ts") });
    }
    symlinkSync(join(WORKSPACE_ROOT, "node_modules"), join(folder, "node_modules"));
    const check = (): number | null => {
      const args = ["node_modules/.bin/nx", "run", "@concord/proxy:boundaries"];
      const ambient = Object.entries(process.env).filter(([name]) => !name.startsWith("NX_"));
      const env = { ...Object.fromEntries(ambient), PATH: `${join(folder, "node_modules/.bin")}:${process.env["PATH"]}` };
      return spawnSync(process.execPath, args, { cwd: folder, env }).status;
    };
    assert.equal(existsSync(join(folder, ".nx")), false);
    seed(undeclared);
    assert.equal(check(), 1, "with an empty cache");
    rmSync(join(folder, "apps/proxy/src/a.ts"));
    assert.equal(check(), 0, "repaired");
    seed(undeclared);
    assert.equal(check(), 1, "with the pass of a moment ago in the cache");
  });
});

test("imports: code in strings and comments: not taken for imports", () => {
  const source = `// import "a";\n/* import "b"; */\nconst text = 'import "c"';\nexport const x = /^import y from 'd'/;\n * from "e"\n`;
  assert.deepEqual(importsOf(source), []);
});

test("imports: every form: found once", () => {
  const source = `import a from "a";\nimport { b,\n  type c } from 'b';\nimport * as d from "d";\nimport "e";\nexport * from "f";\nexport type { G } from "g";\nimport type H from "h";\nlet i: ${IMPORT}("i").I;\nawait ${IMPORT}("j");\nrequire("k");\nimport "e";\n`;
  assert.deepEqual(importsOf(source).sort(), ["a", "b", "d", "e", "f", "g", "h", "i", "j", "k"]);
});

const NON_NULL: Readonly<Record<string, number>> = {
  "a!.b": 1,
  "a[0]![1]!(c!, d()!);": 4,
  "  #field!: string;": 1,
  "b = c! - d!;": 2,
  "`${a!}`": 1,
  "!a && b !== c && d != e && !(f)": 0,
  "a !== b": 0,
  '"say it!" // a!.b': 0,
  "/** a!.b */": 0,
};
for (const [source, count] of Object.entries(NON_NULL))
  test(`non-null: ${source}: ${count}`, () => {
    assert.equal(nonNullIn(source), count);
  });
