// Programs as bundles: workspace code inside, npm packages outside and listed with their versions.
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import type { Plugin } from "esbuild";
import { esbuild } from "./build-modules.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const WORKSPACE_SCOPE = "@concord/";
/** Packages that programs load with a call of their own when they first need them: no import names them. */
const LOADED_LATER = ["@grpc/proto-loader"];

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly overrides?: Readonly<Record<string, string>>;
}

/** `folder` from the root of the repository. */
export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as Manifest;
}

/** Bundles `entries`, by the name of the file each becomes, into `folder`; returns the npm packages that these need, with versions. */
export async function bundlePrograms(entries: Readonly<Record<string, string>>, folder: string): Promise<Readonly<Record<string, string>>> {
  const names = new Set<string>(LOADED_LATER);
  const threads = threadFiles();
  await esbuild.build({
    absWorkingDir: ROOT,
    entryPoints: { ...entries, ...Object.fromEntries(threads.map(({ entry, path }) => [entry, path])) },
    outdir: folder,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node24",
    sourcemap: true,
    logLevel: "warning",
    plugins: [npmPackagesOutside(names), threadsBeside(threads)],
  });
  const versions = declaredVersions();
  return Object.fromEntries([...names].sort().map((name) => [name, versions.get(name) ?? "*"]));
}

/** What `--version` and concord_build_info name; undefined outside a clone. */
export function commit(): string | undefined {
  const options = { cwd: ROOT, encoding: "utf8" } as const;
  const { status, stdout } = spawnSync("git", ["describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"], options);
  return status === 0 ? stdout.trim() : undefined;
}

/** Versions of npm packages as the workspace's own package.json files name them. */
function declaredVersions(): Map<string, string> {
  const folders = ["apps/*", "libs/*", "protos"].flatMap((pattern) => globSync(pattern, { cwd: ROOT }));
  return new Map(folders.flatMap((folder) => Object.entries(readManifest(folder).dependencies ?? {})));
}

/** A module that runs as a thread of its own: no import names it. */
interface ThreadFile {
  /** The module that starts it. */
  readonly startedBy: string;
  /** As the call of `new URL` names it. */
  readonly name: string;
  readonly path: string;
  /** Its file in the bundle, without extension. */
  readonly entry: string;
}

const THREAD_STARTS = /new Worker\(new URL\("([^"]+)\.ts", import\.meta\.url\)/g;
const MODULE_NAMES = /new URL\("[^"]+\.ts", import\.meta\.url\)/g;

function threadFiles(): readonly ThreadFile[] {
  return globSync("libs/*/src/**/*.ts", { cwd: ROOT, exclude: (path) => path.endsWith(".test.ts") }).flatMap((startedBy) =>
    threadsIn(readFileSync(join(ROOT, startedBy), "utf8"), startedBy).map((name) => {
      const path = join(dirname(startedBy), `${name}.ts`);
      return { startedBy: join(ROOT, startedBy), name: `${name}.ts`, path, entry: `${path.split("/")[1]}-${basename(path, ".ts")}` };
    }),
  );
}

/** Throws where a module is named by its URL in a way that the bundle would not follow: it would be absent from the packages. */
export function threadsIn(source: string, path: string): readonly string[] {
  const names = [...source.matchAll(THREAD_STARTS)].map(([, name]) => name!);
  if (names.length < [...source.matchAll(MODULE_NAMES)].length) {
    throw new Error(`${path}: a thread is started by new Worker(new URL("name.ts", import.meta.url)): only so the bundles have its module`);
  }
  return names;
}

/** Modules of a bundle find threads in files beside theirs: all its files are in one folder. */
function threadsBeside(threads: readonly ThreadFile[]): Plugin {
  return {
    name: "threads-beside",
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const started = threads.filter(({ startedBy }) => startedBy === path);
        if (started.length === 0) return undefined;
        let contents = readFileSync(path, "utf8");
        for (const { name, entry } of started) contents = contents.replaceAll(`new URL("${name}"`, `new URL("${entry}.js"`);
        return { contents, loader: "ts" };
      });
    },
  };
}

/** Leaves npm packages out of the bundle and notes their names. */
function npmPackagesOutside(names: Set<string>): Plugin {
  return {
    name: "npm-packages-outside",
    setup({ onResolve }) {
      onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
        if (kind === "entry-point" || path.startsWith(WORKSPACE_SCOPE)) return undefined;
        const name = path
          .split("/")
          .slice(0, path.startsWith("@") ? 2 : 1)
          .join("/");
        if (!path.startsWith("node:") && !builtinModules.includes(name)) names.add(name);
        return { path, external: true };
      });
    },
  };
}
