// The tools that read compose files, charts, workflows and scripts, of the versions pinned beside them, built and installed once. What cannot be run here must at
// least be read here: in CI tools that are missing are a failure, elsewhere the tests that need them are skipped with the reason.
import { execFile, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";

export const ROOT = join(import.meta.dirname, "../../..");
const GO = join(import.meta.dirname, "../go");
const PYTHON = join(import.meta.dirname, "../python");
const CACHE = join(ROOT, "node_modules/.cache/concord-deploy");
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

const NEEDED = { go: ["version"], python3: ["-m", "pip", "--version"] };

/** Options of a test that renders. */
export const RENDERING = { skip: process.env["CI"] === undefined && reasonToSkip() };

function reasonToSkip(): string | false {
  const missing = Object.entries(NEEDED).filter(([program, args]) => spawnSync(program, args).status !== 0);
  return missing.length > 0 && `install ${missing.map(([program]) => program).join(" and ")}: they render the chart and the compose files`;
}

/** The chart's documents with these values, as `helm template` has them. Rejects with the renderer's words. */
export async function renderChart(valuesFile: string): Promise<readonly KubernetesDocument[]> {
  return JSON.parse(await render(["helm", join(ROOT, "deploy/helm/concord"), valuesFile], {})) as readonly KubernetesDocument[];
}

/** A file of docker/ as `docker compose config` has it. Rejects with the renderer's words. */
export async function renderCompose(file: string, env: Readonly<Record<string, string>>): Promise<ComposeProject> {
  return JSON.parse(await render(["compose", join(ROOT, "docker", file)], env)) as ComposeProject;
}

/** What the schemas of these versions of Kubernetes refuse. */
export async function validateDocuments(documents: readonly KubernetesDocument[], versions: readonly string[]): Promise<readonly string[]> {
  const env = { ...process.env, PYTHONPATH: await pythonPackages(), PYTHONDONTWRITEBYTECODE: "1" };
  const child = spawn("python3", [join(PYTHON, "validate.py"), ...versions], { env, stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(documents));
  return JSON.parse(await text(child.stdout)) as readonly string[];
}

/** Findings of actionlint in workflows of GitHub Actions, and of shellcheck in the scripts inside them. */
export async function lintWorkflows(files: readonly string[]): Promise<readonly string[]> {
  const env = { PATH: `${join(await pythonPackages(), "bin")}:${process.env["PATH"]}` };
  return JSON.parse(await render(["actions", ...files], env)) as readonly string[];
}

/** Findings of shellcheck in scripts, a line each; a script that bash cannot parse is one. */
export async function lintScripts(files: readonly string[]): Promise<readonly string[]> {
  const shellcheck = join(await pythonPackages(), "bin/shellcheck");
  const { stdout } = await promisify(execFile)(shellcheck, ["--format=gcc", "--severity=warning", ...files]).catch(
    (error: Error & { readonly code?: number; readonly stdout?: string }) => {
      // 1: it found something; others: it could not look.
      if (error.code !== 1) throw error;
      return { stdout: error.stdout! };
    },
  );
  return stdout.split("\n").filter((line) => line !== "");
}

function pythonPackages(): Promise<string> {
  return cached("python", ["requirements.txt"], PYTHON, (folder) =>
    promisify(execFile)("python3", [...PIP, "--target", folder, "-r", join(PYTHON, "requirements.txt")]),
  );
}

const PIP = ["-m", "pip", "install", "--quiet", "--only-binary=:all:"];

async function render(args: readonly string[], env: Readonly<Record<string, string>>): Promise<string> {
  const folder = await cached("render", readdirSync(GO), GO, (into) =>
    promisify(execFile)("go", ["build", "-trimpath", "-o", join(into, "render"), "."], { cwd: GO }),
  );
  const options = { env: { ...process.env, ...env }, maxBuffer: OUTPUT_BYTES_MAX };
  const { stdout } = await promisify(execFile)(join(folder, "render"), args, options).catch(
    (error: Error & { readonly stderr?: string }) => {
      throw new Error(error.stderr || error.message);
    },
  );
  return stdout;
}

const making = new Map<string, Promise<string>>();

/** A folder that `make` filled from these files, kept until they change. */
function cached(name: string, files: readonly string[], from: string, make: (folder: string) => Promise<unknown>): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files.toSorted()) hash.update(file).update(readFileSync(join(from, file)));
  const folder = join(CACHE, `${name}-${hash.digest("hex").slice(0, 16)}`);
  const made = making.get(folder) ?? makeOnce(folder, make);
  making.set(folder, made);
  return made;
}

async function makeOnce(folder: string, make: (folder: string) => Promise<unknown>): Promise<string> {
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const partial = mkdtempSync(join(CACHE, "making-"));
  try {
    await make(partial);
    // Another test file may have been quicker.
    if (!existsSync(folder)) renameSync(partial, folder);
    return folder;
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

export interface KubernetesDocument {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

export interface ComposeProject {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

export interface ComposeService {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly entrypoint?: readonly string[] | null;
  readonly command?: readonly string[] | null;
  readonly environment?: Readonly<Record<string, string | null>>;
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: boolean };
  readonly ports?: readonly { readonly target: number; readonly published: string; readonly host_ip?: string }[];
  readonly volumes?: readonly { readonly type: string; readonly source: string; readonly target: string; readonly read_only?: boolean }[];
  readonly networks?: Readonly<Record<string, { readonly ipv4_address?: string } | null>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly read_only?: boolean;
  readonly user?: string;
  readonly cap_drop?: readonly string[];
}
