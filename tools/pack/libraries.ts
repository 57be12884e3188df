// The libs that are products of their own, as tarballs: plain JavaScript for Node 20 with types and source maps, a package for each lib, so
// that a program that uses two of them has one `ConcordError`.
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { TSC, TYPE_ROOTS } from "@concord/nx-targets/build-modules";
import { withSourcesFromRoot } from "./source-maps.ts";
import { packCommand, packStage } from "./tarball.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const SCOPE = "@concord/";
export const LIBRARY_NODE_FLOOR = ">=20";

/** Each published lib and what it is, in one sentence. What one of them depends on in the workspace is in the list too. */
export const LIBRARIES: Readonly<Record<string, string>> = {
  snowflake: "64-bit time-ordered ids: unique over workers, restarts and steps of the clock.",
  journal: "A local append log: group fsync, checkpoints, backward scan, damage that is found and never deleted.",
  "failure-detection": "Failure detection by heartbeats and a majority, in 200 ms, as a pure step function and a loop.",
  "logged-batch": "Atomic batches over replicas: a batch log on two nodes, replay, hints, dead letters.",
  quorum: "Quorum reads and writes over three replicas, with speculation and read repair.",
  rows: "Rows, keys, mutations and images of Concord's data model, as bytes.",
  values: "Typed column values of Concord's data model: checked, ordered, encoded.",
  ports: "The ports that Concord's protocol libs ask of stores, logs and replicas.",
  codec: "Bytes, order-preserving keys and hashes.",
  runtime: "Clock, disk, randomness, errors, metrics and transport as arguments of a program.",
  checksums: "CRC-32C, CRC-64/NVME and digests.",
  "adapter-node-runtime": "Clock, disk, randomness and environment of Node for @concord/runtime.",
};

/** Those that are used for themselves; the others are what these stand on. */
export const PRODUCTS = ["snowflake", "journal", "failure-detection", "logged-batch"] as const;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** Packs every lib of LIBRARIES into `folder`; resolves with the paths of the tarballs. */
export async function packLibraries(folder: string): Promise<readonly string[]> {
  const emitted = mkdtempSync(join(tmpdir(), "concord-libraries-"));
  try {
    compile(emitted);
    const packed: string[] = [];
    for (const lib of Object.keys(LIBRARIES)) packed.push(await packLibrary(folder, lib, join(emitted, "libs", lib, "src")));
    return packed;
  } finally {
    rmSync(emitted, { recursive: true, force: true });
  }
}

/** Checked against what Node 20 has: an API of a later one is an error here, not at its user's. */
function compile(outDir: string): void {
  const config = join(outDir, "tsconfig.json");
  const compilerOptions = {
    noEmit: false,
    outDir,
    rootDir: ROOT,
    target: "es2022",
    lib: ["es2023", "es2024.string", "esnext.disposable"],
    typeRoots: TYPE_ROOTS,
    declaration: true,
    sourceMap: true,
    inlineSources: true,
    rewriteRelativeImportExtensions: true,
  };
  const files = Object.keys(LIBRARIES).flatMap((lib) => sourcesOf(lib));
  writeFileSync(config, JSON.stringify({ extends: join(ROOT, "tsconfig.base.json"), compilerOptions, files }));
  execFileSync(process.execPath, [TSC, "-p", config], { stdio: ["ignore", "inherit", "inherit"] });
}

/** What runs: no tests, and nothing that only tests use. */
function sourcesOf(lib: string): readonly string[] {
  const folder = join(ROOT, "libs", lib, "src");
  return globSync("**/*.ts", { cwd: folder })
    .filter((path) => !path.endsWith(".test.ts") && !path.startsWith("test/"))
    .map((path) => join(folder, path));
}

function packLibrary(folder: string, lib: string, compiled: string): Promise<string> {
  return packStage(folder, join(ROOT, "libs", lib, "README.md"), async (stage) => {
    for (const path of globSync("**/*.{js,d.ts,js.map}", { cwd: compiled })) {
      const target = join(stage, "dist", path);
      mkdirSync(dirname(target), { recursive: true });
      const text = readFileSync(join(compiled, path), "utf8");
      writeFileSync(target, path.endsWith(".map") ? withSourcesFromRoot(text, dirname(join(compiled, path))) : asPublished(text));
    }
    return manifestOf(lib);
  });
}

/** Declarations keep the names of sources, and so does what is loaded by its address. */
function asPublished(text: string): string {
  return text.replaceAll(/((?:from|import)\s*\(?\s*"\.{1,2}\/[^"]+)\.ts"/g, '$1.js"').replaceAll(/(new URL\("[^"]+)\.ts"/g, '$1.js"');
}

function manifestOf(lib: string): object {
  const { name, version, license, exports, dependencies = {} } = readManifest(lib);
  return {
    name,
    version,
    description: LIBRARIES[lib],
    license,
    type: "module",
    sideEffects: false,
    exports: Object.fromEntries(published(exports).map(([entry, path]) => [entry, { types: `${path}.d.ts`, default: `${path}.js` }])),
    engines: { node: LIBRARY_NODE_FLOOR },
    dependencies: Object.fromEntries(Object.entries(dependencies).map(([needed, range]) => [needed, rangeOf(needed, range)])),
  };
}

/** The entries that are not for the workspace's own tests, each with the file it becomes. */
function published(exports: Manifest["exports"]): readonly [string, string][] {
  return Object.entries(exports)
    .filter(([, source]) => !source.startsWith("./src/test/"))
    .map(([entry, source]) => [entry, `./dist/${relative("src", source).replace(/\.ts$/, "")}`]);
}

/** Packages of one release fit each other; npm takes a later patch of them. */
function rangeOf(needed: string, range: string): string {
  if (!needed.startsWith(SCOPE)) return range;
  const lib = needed.slice(SCOPE.length);
  if (!(lib in LIBRARIES)) throw new Error(`a published lib depends on ${needed}, which is not published: add it to LIBRARIES`);
  return `^${readManifest(lib).version}`;
}

function readManifest(lib: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, "libs", lib, "package.json"), "utf8")) as Manifest;
}

if (process.argv[1] === import.meta.filename) await packCommand("libs:pack", async (folder) => (await packLibraries(folder)).join("\n"));
