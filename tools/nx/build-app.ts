// Bundles one app into its dist folder: workspace code inside, npm packages outside and listed with their versions in
// dist/package.json, the contracts inside too. `npm install` in dist gives an image everything it needs.
import { execFileSync, spawnSync } from "node:child_process";
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { build, type Plugin } from "esbuild";

const WORKSPACE_SCOPE = "@concord/";

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly overrides?: Readonly<Record<string, string>>;
}

const readManifest = (folder: string): Manifest => JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

/** Versions of npm packages as the workspace's own package.json files name them. */
function declaredVersions(): Map<string, string> {
  const folders = ["apps/*", "libs/*", "protos"].flatMap((pattern) => globSync(pattern));
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

/** What `--version` and concord_build_info name; undefined outside a clone. */
function commit(): string | undefined {
  const { status, stdout } = spawnSync("git", ["describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"], { encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

async function buildApp(root: string): Promise<void> {
  const output = join(root, "dist");
  const names = new Set<string>();
  rmSync(output, { recursive: true, force: true });
  await build({
    entryPoints: [join(root, "src/main.ts")],
    outfile: join(output, "main.js"),
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    sourcemap: true,
    logLevel: "warning",
    plugins: [npmPackagesOutside(names)],
  });
  const versions = declaredVersions();
  const dependencies = Object.fromEntries([...names].sort().map((name) => [name, versions.get(name) ?? "*"]));
  const { name, version, license } = readManifest(root);
  const { overrides } = readManifest(".");
  const manifest = { name, version, commit: commit(), license, private: true, type: "module", main: "main.js", dependencies, overrides };
  writeFileSync(join(output, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
  // A bundle that cannot say what it takes and which build it is, is no build.
  execFileSync(process.execPath, [join(output, "main.js"), "--help"], { stdio: ["ignore", "ignore", "inherit"] });
  const said = execFileSync(process.execPath, [join(output, "main.js"), "--version"], { encoding: "utf8" });
  if (!said.includes(` ${version} (commit ${manifest.commit ?? "unknown"},`)) throw new Error(`the bundle takes itself for ${said}`);
}

const root = process.argv[2];
if (root === undefined) throw new Error("usage: node tools/nx/build-app.ts APP_FOLDER");
await buildApp(root);
