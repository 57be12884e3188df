// The bootstrap in a small workspace with a stand-in command: what it passes on, when it installs, when it stops.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

const LOCKED = {
  packages: { "": { version: "1" }, "libs/a": { version: "1" }, "node_modules/x": { version: "2", integrity: "sha512-x" } },
};
const OTHER_PLATFORM = { version: "1", integrity: "sha512-y", optional: true };

/** Says what it got, then waits for a signal. */
const COMMAND = `
console.log("args", JSON.stringify(process.argv.slice(2)), "node", process.execPath);
if (process.argv.includes("--exit")) process.exit(7);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => { console.log("got", signal); process.exit(0); });
setInterval(() => {}, 1000);
console.log("pid", process.pid);
`;
/** Stands for npm: installs what the lock file says and notes that it ran. */
const NPM = `
const fs = require("node:fs");
fs.writeFileSync("npm-ran", process.argv.slice(2).join(" "));
fs.mkdirSync("node_modules", { recursive: true });
fs.copyFileSync("package-lock.json", "node_modules/.package-lock.json");
`;

/** Generous: the machine may be busy with others. */
const SAYS_MS_MAX = 60_000;

let folder = "";
let children: ChildProcess[] = [];
let texts: (() => string)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-bootstrap-"));
  children = [];
  texts = [];
  mkdirSync(join(folder, "tools/bootstrap"), { recursive: true });
  for (const file of ["main.mjs", "installed.mjs"]) cpSync(join(import.meta.dirname, file), join(folder, "tools/bootstrap", file));
  const follow = "testing/constellation/src/follow-parent.mjs";
  write(follow, readFileSync(join(import.meta.dirname, "../..", follow), "utf8"));
  write("testing/constellation/src/start.ts", COMMAND);
  write("tools/protos/generate.ts", 'require("node:fs").appendFileSync("generated", "once\\n");');
  write("npm.cjs", NPM);
  write("package-lock.json", JSON.stringify(LOCKED));
  write("node_modules/.package-lock.json", JSON.stringify(LOCKED));
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  for (const text of texts) for (const [, pid] of text().matchAll(/^pid (\d+)$/gm)) endIfAlive(Number(pid));
  rmSync(folder, { recursive: true });
});

/** A command that outlived the bootstrap. */
function endIfAlive(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended, as it should.
  }
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

interface Run {
  readonly child: ChildProcess;
  /** Resolves when the output has the text, rejects when it ends without, or lacks it for too long. */
  says(text: string): Promise<void>;
  readonly exitCode: Promise<number | null>;
  output(): string;
}

function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Run {
  const child = spawn(program, args, { cwd: folder, env: { PATH: process.env["PATH"], npm_execpath: join(folder, "npm.cjs"), ...env } });
  children.push(child);
  let text = "";
  const collect = (chunk: Buffer): void => void (text += chunk.toString());
  texts.push(() => text);
  child.stdout.on("data", collect);
  child.stderr.on("data", collect);
  return {
    child,
    output: () => text,
    exitCode: new Promise((resolve) => child.on("close", (code) => resolve(code))),
    says: (wanted) =>
      new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`no "${wanted}" after ${SAYS_MS_MAX / 1000} s:\n${text}`)), SAYS_MS_MAX);
        child.on("close", () => reject(new Error(`ended without "${wanted}":\n${text}`)));
        const look = (): void => {
          if (!text.includes(wanted)) return;
          clearTimeout(late);
          resolve();
        };
        child.stdout.on("data", look);
        look();
      }),
  };
}

const bootstrap = (...args: readonly string[]): Run => run(process.execPath, ["tools/bootstrap/main.mjs", ...args]);

test("bootstrap: arguments and exit code: passed on", async () => {
  const started = bootstrap("start", "--", "--exit", "two words");
  assert.equal(await started.exitCode, 7);
  assert.equal(readFileSync(join(folder, "generated"), "utf8"), "once\n", "the contracts' modules are made first");
  assert.match(started.output(), /args \["--exit","two words"\]/);
});

test("bootstrap: --version: the workspace's version, without installing or running anything", async () => {
  write("package.json", JSON.stringify({ version: "1.2.3" }));
  write(
    "package-lock.json",
    JSON.stringify({ packages: { ...LOCKED.packages, "node_modules/z": { version: "1", integrity: "sha512-z" } } }),
  );
  for (const args of [["--version"], ["start", "--", "--version"], ["simulate", "--version"]]) {
    const asked = bootstrap(...args);
    assert.equal(await asked.exitCode, 0);
    assert.match(asked.output(), /^concord 1\.2\.3 \(commit unknown, Node v\d+\.\d+\.\d+ here\)\n$/);
  }
  assert.equal(existsSync(join(folder, "npm-ran")), false);
});

test("bootstrap: unknown command: refused with the list", async () => {
  const refused = bootstrap("constructor");
  assert.equal(await refused.exitCode, 1);
  assert.match(refused.output(), /usage: .*start \| demo/);
});

interface LockedPackage {
  readonly version: string;
  readonly integrity: string;
  readonly os: string;
  readonly cpu: string;
  readonly bin: { readonly node: string };
  /** A project of this repository. */
  readonly link?: true;
  /** Comes inside another package. */
  readonly inBundle?: true;
}

const packagesOf = (path: string): Record<string, LockedPackage> =>
  (JSON.parse(readFileSync(join(import.meta.dirname, "../..", path), "utf8")) as { packages: Record<string, LockedPackage> }).packages;
const pinnedNodes = Object.entries(packagesOf("package-lock.json")).filter(([path]) =>
  /^node_modules\/node-(bin-)?(linux|darwin|win)-/.test(path),
);

test("bootstrap: pinned Nodes: one version for five platforms, each locked with its integrity", () => {
  const platforms = pinnedNodes.map(([, { os, cpu }]) => `${os}-${cpu}`);
  assert.deepEqual(platforms.toSorted(), ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64", "win32-x64"]);
  assert.equal(new Set(pinnedNodes.map(([, { version }]) => version)).size, 1);
  for (const [, { integrity }] of pinnedNodes) assert.match(integrity, /^sha512-/);
});

test("[SEC12] bootstrap: every package is locked with its integrity, npm runs no install scripts, actions of CI are pinned by commit", () => {
  const root = join(import.meta.dirname, "../..");
  const fetched = Object.entries(packagesOf("package-lock.json")).filter(
    ([path, { link }]) => path.startsWith("node_modules/") && link !== true,
  );
  assert.ok(fetched.length > 300);
  for (const [path, { integrity, inBundle }] of fetched) if (inBundle !== true) assert.match(String(integrity), /^sha512-/, path);
  assert.match(readFileSync(join(root, "tools/bootstrap/main.mjs"), "utf8"), /\["ci", "--ignore-scripts"/);
  const used = readdirSync(join(root, ".github/workflows")).flatMap((file) => [
    ...readFileSync(join(root, ".github/workflows", file), "utf8").matchAll(/uses: (\S+)/g),
  ]);
  assert.ok(used.length > 0);
  for (const [, action] of used) assert.match(action!, /@[0-9a-f]{40}$/);
});

for (const [path, { os, cpu, bin }] of pinnedNodes) {
  test(`bootstrap: ${os}-${cpu}: the command runs on the pinned Node of its package`, async () => {
    const pinned = join(path, bin.node);
    write(pinned, `#!/bin/sh\necho pinned first in $PATH\nexec "${process.execPath}" "$@"\n`);
    chmodSync(join(folder, pinned), 0o755);
    write(
      "platform.mjs",
      `for (const [key, value] of Object.entries({ platform: "${os}", arch: "${cpu}" })) Object.defineProperty(process, key, { value });`,
    );
    const started = run(process.execPath, ["--import", "./platform.mjs", "tools/bootstrap/main.mjs", "start", "--exit"]);
    assert.equal(await started.exitCode, 7);
    assert.ok(
      started.output().includes(`pinned first in ${join(folder, dirname(pinned))}:${join(folder, "node_modules/.bin")}:`),
      started.output(),
    );
  });
}

test("bootstrap: a platform without a packaged Node: the system's Node runs the command", async () => {
  write("platform.mjs", `Object.defineProperty(process, "arch", { value: "s390x" });`);
  const started = run(process.execPath, ["--import", "./platform.mjs", "tools/bootstrap/main.mjs", "start", "--exit"]);
  assert.equal(await started.exitCode, 7);
  assert.ok(started.output().includes(`node ${process.execPath}`), started.output());
});

test("bootstrap: what the lock file says is installed: npm does not run", async () => {
  write("package-lock.json", JSON.stringify({ packages: { ...LOCKED.packages, "node_modules/other-platform": OTHER_PLATFORM } }));
  assert.equal(await bootstrap("start", "--exit").exitCode, 7);
  assert.equal(existsSync(join(folder, "npm-ran")), false);
});

test("bootstrap: start: without what only tests need; another command: everything", async () => {
  const packages = { ...LOCKED.packages, "node_modules/tool": { version: "1", integrity: "sha512-t", dev: true } };
  write("package-lock.json", JSON.stringify({ packages }));
  write("testing/demo/src/demo.ts", COMMAND);
  assert.equal(await bootstrap("start", "--exit").exitCode, 7);
  assert.equal(existsSync(join(folder, "npm-ran")), false);
  assert.equal(await bootstrap("demo", "--exit").exitCode, 7);
  assert.match(readFileSync(join(folder, "npm-ran"), "utf8"), /--include=dev/);
  rmSync(join(folder, "npm-ran"));
  rmSync(join(folder, "node_modules"), { recursive: true });
  assert.equal(await bootstrap("start", "--exit").exitCode, 7);
  assert.match(readFileSync(join(folder, "npm-ran"), "utf8"), /--omit=dev/);
});

test("bootstrap: a package is made beside what runs: build tools as locked in a folder of their own, node_modules as it was", async () => {
  const tool = { version: "3.0.0", integrity: "sha512-e", dev: true };
  const packages = { ...LOCKED.packages, "node_modules/esbuild": tool, "node_modules/nx": { ...tool, integrity: "sha512-n" } };
  write("package-lock.json", JSON.stringify({ lockfileVersion: 3, packages }));
  write("package.json", JSON.stringify({ devDependencies: { esbuild: "3.0.0", typescript: "7.0.0", "@types/node": "24.0.0" } }));
  write("tools/pack/client.ts", 'console.log("modules", process.env.CONCORD_BUILD_MODULES);');
  const before = readFileSync(join(folder, "node_modules/.package-lock.json"), "utf8");
  const first = bootstrap("client:pack", "out");
  assert.equal(await first.exitCode, 0, first.output());
  const build = join(folder, "node_modules/.cache/concord-build");
  assert.match(first.output(), new RegExp(`modules ${join(build, "node_modules")}`));
  assert.match(readFileSync(join(build, "npm-ran"), "utf8"), /^ci --ignore-scripts/);
  const lock = JSON.parse(readFileSync(join(build, "package-lock.json"), "utf8")) as { packages: Record<string, { integrity?: string }> };
  assert.deepEqual(Object.keys(lock.packages), ["", "node_modules/esbuild"]);
  assert.equal(lock.packages["node_modules/esbuild"]!.integrity, "sha512-e");
  assert.equal(existsSync(join(folder, "npm-ran")), false);
  assert.equal(readFileSync(join(folder, "node_modules/.package-lock.json"), "utf8"), before);
  rmSync(join(build, "npm-ran"));
  assert.equal(await bootstrap("client:pack", "out").exitCode, 0);
  assert.equal(existsSync(join(build, "npm-ran")), false, "installed once");
});

test("bootstrap: compiled modules are kept inside node_modules, by each command", async () => {
  const cacheOf = 'console.log("cache", process.env.NODE_COMPILE_CACHE);';
  write("testing/constellation/src/start.ts", cacheOf);
  write("testing/demo/src/demo.ts", cacheOf);
  for (const started of [bootstrap("start"), bootstrap("demo")]) {
    assert.equal(await started.exitCode, 0);
    assert.ok(started.output().includes(`cache ${join(folder, "node_modules", ".cache")}`), started.output());
  }
});

for (const [situation, packages] of [
  ["a package has a new version", { ...LOCKED.packages, "node_modules/x": { version: "3", integrity: "sha512-z" } }],
  ["a package is new", { ...LOCKED.packages, "node_modules/z": { version: "1", integrity: "sha512-z" } }],
  ["a project is new", { ...LOCKED.packages, "node_modules/@concord/z": { resolved: "libs/z", link: true } }],
] as const) {
  test(`bootstrap: ${situation}: npm ci runs once`, async () => {
    write("package-lock.json", JSON.stringify({ packages }));
    const first = bootstrap("start", "--exit");
    assert.equal(await first.exitCode, 7);
    assert.ok(existsSync(join(folder, "npm-ran")));
    assert.match(first.output(), /installing .* about \d+ MB on disk[^]*installed in \d+ s/);
    rmSync(join(folder, "npm-ran"));
    assert.equal(await bootstrap("start", "--exit").exitCode, 7);
    assert.equal(existsSync(join(folder, "npm-ran")), false);
  });
}

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  test(`bootstrap: ${signal}: reaches the command, whose exit code counts`, async () => {
    const started = bootstrap("start");
    await started.says("pid");
    started.child.kill(signal);
    assert.equal(await started.exitCode, 0);
    assert.match(started.output(), new RegExp(`got ${signal}`));
  });
}

test("bootstrap: it is killed: the command is stopped", async () => {
  const started = bootstrap("start");
  await started.says("pid");
  started.child.kill("SIGKILL");
  await started.says("got SIGTERM");
});

test("bootstrap: the npm that started it is killed: the command is stopped", async () => {
  const npm = `require("node:child_process").spawn("sh", ["-c", "${process.execPath} tools/bootstrap/main.mjs start; true"], { stdio: "inherit" })`;
  const started = run(process.execPath, ["-e", npm], { npm_lifecycle_event: "start" });
  await started.says("pid");
  started.child.kill("SIGKILL");
  await started.says("got SIGTERM");
});
