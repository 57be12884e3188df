// What every client of `npm run clients` is: something to install, and a script that does a day's work with a gateway.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { run } from "../../toolchain.ts";
import { ACCESS_KEY, REGION, type GatewayProgram } from "../gateway-program.ts";

/** What is missing fails with CI set, since a registry has it; what the machine cannot do is a printed skip anywhere. */
export type Installed =
  | { readonly kind: "ready"; readonly version: string; work(gateway: GatewayProgram): Promise<void> }
  | { readonly kind: "missing" | "unable"; readonly reason: string };

/** The machine turned out to be unable to do what the client needs. */
export class UnableHere extends Error {}

export interface Client {
  readonly name: string;
  /** What its script does by another client's hand. */
  readonly notItsOwn?: readonly string[];
  install(): Promise<Installed>;
}

export const SCRIPTS = resolve(import.meta.dirname, "../../../s3");
const CACHE = resolve(import.meta.dirname, "../../../../../node_modules/.cache/concord-clients");
const KIB = 1024;
/** More than what clients send in one request: awscli and boto3 begin to cut at 8 MiB, s3cmd at 15. */
export const LARGE_BYTES = 18 * KIB * KIB;

/** Variables that every AWS client reads. Nothing of the user's own configuration. */
export const awsVariables = ({ address, folder }: GatewayProgram): Readonly<Record<string, string>> => ({
  AWS_ACCESS_KEY_ID: ACCESS_KEY.accessKeyId,
  AWS_SECRET_ACCESS_KEY: ACCESS_KEY.secretAccessKey,
  AWS_DEFAULT_REGION: REGION,
  AWS_REGION: REGION,
  AWS_ENDPOINT_URL: `http://${address}`,
  AWS_EC2_METADATA_DISABLED: "true",
  AWS_PAGER: "",
  NO_PROXY: "127.0.0.1",
  HOME: folder,
});

/** A folder in the cache that `fill` made once for this key; half a one is never seen. */
export async function cached(name: string, key: string, fill: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(CACHE, `${name}-${createHash("sha256").update(key).digest("hex").slice(0, 16)}`);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const partial = mkdtempSync(join(CACHE, "installing-"));
  try {
    await fill(partial);
    if (!existsSync(folder)) renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return folder;
}

/** The first line of what a program says of its version; undefined when it is not there. */
export const versionLine = (command: string, ...args: string[]): Promise<string | undefined> =>
  run(command, args).then(
    (text) => text.trim().split("\n")[0],
    () => undefined,
  );

/** Files of an everyday folder: empty, small, large, with names that must be encoded. */
export function makeFiles(folder: string): string {
  const files: Readonly<Record<string, Uint8Array>> = {
    "notes.txt": Buffer.from("notes of a day\n"),
    empty: Buffer.alloc(0),
    "deep/er/photo 1 (köln)+.bin": randomBytes(70 * KIB),
    "deep/other": randomBytes(5 * KIB),
    "large.bin": randomBytes(LARGE_BYTES),
  };
  for (const [name, bytes] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
  return folder;
}

function treeOf(folder: string): Readonly<Record<string, string>> {
  const files = globSync("**/*", { cwd: folder }).filter((name) => statSync(join(folder, name)).isFile());
  const sum = (name: string): string =>
    createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex");
  return Object.fromEntries(files.sort().map((name) => [name, sum(name)]));
}

export function assertSameFiles(got: string, wanted: string): void {
  assert.deepEqual(treeOf(got), treeOf(wanted));
}

/** The bytes behind an address that a client has signed. */
export async function fetched(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(30_000) });
  assert.equal(response.status, 200, url.replace(/\?.*/, ""));
  return await response.text();
}
