// What an image holds: the five programs as bundles beside each other, and the part of the lock file that they need. `npm ci` in the
// folder installs exactly the packages that the tests ran with.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { bundlePrograms, commit, readManifest } from "@concord/nx-targets/bundle";
import { lockOf, type Lock } from "./image-lock.ts";
import { nameSourcesFromRoot } from "./source-maps.ts";
import { packCommand } from "./tarball.ts";

const ROOT = resolve(import.meta.dirname, "../..");
export const PROGRAMS = ["concord", "storage-proxy", "txn-coordinator", "object-gateway", "dedup-worker"] as const;

/** Fills `folder`: PROGRAM.js each, healthcheck.js, package.json, package-lock.json, LICENSE. Resolves with it. */
export async function packImage(folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const entries = Object.fromEntries(PROGRAMS.map((name) => [name, `apps/${name}/src/main.ts`]));
  const dependencies = await bundlePrograms(entries, folder);
  nameSourcesFromRoot(folder);
  const { version, license } = readManifest("apps/concord");
  const { overrides } = readManifest(".");
  const manifest = {
    name: "concord-image",
    version,
    commit: process.env["COMMIT"] ?? commit(),
    license,
    private: true,
    type: "module",
    dependencies,
    overrides,
  };
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as Lock;
  const write = (name: string, content: object): void => writeFileSync(join(folder, name), `${JSON.stringify(content, undefined, 2)}\n`);
  write("package.json", manifest);
  write("package-lock.json", lockOf(lock, { name: manifest.name, version, license, dependencies }));
  copyFileSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
  copyFileSync(join(ROOT, "docker/healthcheck.js"), join(folder, "healthcheck.js"));
  return folder;
}

if (process.argv[1] === import.meta.filename) await packCommand("image:pack", packImage);
