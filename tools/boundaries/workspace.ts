import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { importsOf, protoImports } from "./imports.ts";
import { nonNullIn } from "./non-null.ts";

/** One source file and what it imports, as written. */
export interface SourceFile {
  /** Relative to the project's folder. */
  readonly path: string;
  readonly isTest: boolean;
  readonly imports: readonly string[];
  /** How many non-null assertions it has. */
  readonly nonNull: number;
}

export interface Project {
  /** Relative to the workspace root: "libs/rpc". */
  readonly root: string;
  readonly name: string;
  readonly version: string;
  /** The names behind the `layer:` tags; exactly one when all is well. */
  readonly layers: readonly string[];
  /** What the package.json declares for production code, workspace packages and third-party ones. */
  readonly dependencies: ReadonlySet<string>;
  /** What it declares for tests only. */
  readonly devDependencies: ReadonlySet<string>;
  /** Projects whose files it reads by path instead of importing them. */
  readonly implicitDependencies: ReadonlySet<string>;
  /** Targets the package.json defines itself, beside the inferred ones. */
  readonly ownTargets: readonly string[];
  /** Public entries: "." and what else `exports` names. */
  readonly exports: readonly string[];
  readonly files: readonly SourceFile[];
}

export interface Workspace {
  /** Of the root, and so of every program. */
  readonly version: string;
  readonly projects: readonly Project[];
  /** Development tools declared at the root; tests and tools may import them. */
  readonly rootDevDependencies: ReadonlySet<string>;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  /** Of the root: patterns of the project folders. */
  readonly workspaces?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly nx?: {
    readonly tags?: readonly string[];
    readonly implicitDependencies?: readonly string[];
    readonly targets?: Readonly<Record<string, unknown>>;
  };
}

const SOURCE_FILES = "**/*.{ts,mts,cts,js,mjs,cjs,proto}";
const NOT_SOURCE = new Set(["node_modules", "dist", "gen"]);
const LAYER_TAG = "layer:";

/** Reads every package.json below the workspace root; the sources too, of all projects or of the one in `sourcesOf`. */
export function readWorkspace(workspaceRoot: string, sourcesOf?: string): Workspace {
  const top = readManifest(join(workspaceRoot, "package.json"));
  const roots = (top.workspaces ?? []).flatMap((pattern) => globSync(pattern, { cwd: workspaceRoot })).sort();
  const withManifest = roots.filter((root) => existsSync(join(workspaceRoot, root, "package.json")));
  return {
    version: top.version,
    projects: withManifest.map((root) => readProject(workspaceRoot, root, sourcesOf === undefined || sourcesOf === root)),
    rootDevDependencies: new Set(Object.keys(top.devDependencies ?? {})),
  };
}

function readProject(workspaceRoot: string, root: string, withSources: boolean): Project {
  const manifest = readManifest(join(workspaceRoot, root, "package.json"));
  const tags = manifest.nx?.tags ?? [];
  return {
    root,
    name: manifest.name,
    version: manifest.version,
    layers: tags.filter((tag) => tag.startsWith(LAYER_TAG)).map((tag) => tag.slice(LAYER_TAG.length)),
    dependencies: new Set(Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })),
    devDependencies: new Set(Object.keys(manifest.devDependencies ?? {})),
    implicitDependencies: new Set(manifest.nx?.implicitDependencies ?? []),
    ownTargets: Object.keys(manifest.nx?.targets ?? {}),
    exports: Object.keys(manifest.exports ?? {}),
    files: withSources ? readSources(join(workspaceRoot, root)) : [],
  };
}

function readSources(folder: string): SourceFile[] {
  const inside = globSync("*/**/package.json", { cwd: folder, exclude: (name) => NOT_SOURCE.has(name) }).map((path) => `${dirname(path)}/`);
  const paths = globSync(SOURCE_FILES, { cwd: folder, exclude: (name) => NOT_SOURCE.has(name) }).sort();
  const own = paths.filter((path) => !inside.some((project) => path.startsWith(project)));
  return own.map((path) => {
    const text = readFileSync(join(folder, path), "utf8");
    const isProto = path.endsWith(".proto");
    const imports = isProto ? protoImports(text) : importsOf(text);
    return { path, isTest: isTestPath(path), imports, nonNull: isProto ? 0 : nonNullIn(text) };
  });
}

/** Tests, and what lies in `src/test` for them. */
export function isTestPath(path: string): boolean {
  return /\.test\.[cm]?[jt]s$/.test(path) || path.startsWith("src/test/");
}

function readManifest(path: string): Manifest {
  return JSON.parse(readFileSync(path, "utf8")) as Manifest;
}
