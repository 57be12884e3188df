// Programs as bundles: workspace code inside, npm packages outside and listed with their versions.
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join, resolve } from "node:path";
import { build, type Plugin } from "esbuild";

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
  await build({
    absWorkingDir: ROOT,
    entryPoints: entries,
    outdir: folder,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node24",
    sourcemap: true,
    logLevel: "warning",
    plugins: [npmPackagesOutside(names)],
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
