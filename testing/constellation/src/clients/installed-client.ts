// The client as a user gets it: packed, installed into a folder of its own by npm, imported from there.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type * as ClientPackage from "@concord/client";

/** Run as the README tells users to. */
const PACK = resolve(import.meta.dirname, "../../../../tools/pack/client.ts");

export type Client = Pick<typeof ClientPackage, "connect" | "ConcordClientError" | "typed">;

export interface Installed {
  readonly client: Client;
  /** The published contracts inside the installed package. */
  readonly protoFolder: string;
  /** Loads a package as a program in that folder would. */
  readonly load: (name: string) => unknown;
}

/** Installs into `folder`, without scripts; npm takes what it has cached before it asks the registry. */
export async function installClient(folder: string): Promise<Installed> {
  mkdirSync(folder, { recursive: true });
  const tarball = execFileSync(process.execPath, [PACK, folder], { encoding: "utf8" }).trim();
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "concord-demo", private: true, type: "module" }));
  const flags = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"];
  execFileSync("npm", ["install", ...flags, tarball], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  const load: (name: string) => unknown = createRequire(join(folder, "index.js"));
  const client = (await import(pathToFileURL(join(folder, "node_modules/@concord/client/index.js")).href)) as Client;
  return { client, protoFolder: join(folder, "node_modules/@concord/client/protos"), load };
}
