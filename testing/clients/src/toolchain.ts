// The tools of other languages: found or not, and which version. Run by itself it prints the versions, so that a cached result of the
// tests counts only where the same tools are.
import { execFile } from "node:child_process";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** The folder of the contracts: from there clients are generated. */
export const PROTOS = join(import.meta.dirname, "../../../protos");

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** The standard output of a program; rejects with its standard error when it fails. */
export async function run(command: string, args: readonly string[], { cwd, env }: RunOptions = {}): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

/** PATH with `folder` first. */
export function pathWith(folder: string): string {
  return `${folder}${delimiter}${process.env["PATH"]}`;
}

async function versionOf(command: string, ...args: string[]): Promise<string | undefined> {
  return run(command, args).then(
    (text) => text.trim(),
    () => undefined,
  );
}

/** Why Go clients cannot be built here; undefined: they can. */
export async function goMissing(): Promise<string | undefined> {
  return (await versionOf("go", "version")) === undefined ? "go is not installed" : undefined;
}

const PYTHON_MINOR_MIN = 10;

/** Why Python clients cannot be run here; undefined: they can. */
export async function pythonMissing(): Promise<string | undefined> {
  const version = await versionOf("python3", "--version");
  if (version === undefined) return "python3 is not installed";
  const [, major, minor] = /^Python (\d+)\.(\d+)/.exec(version) ?? [];
  if (major !== "3" || Number(minor) < PYTHON_MINOR_MIN) return `Python 3.${PYTHON_MINOR_MIN} or later is needed, this is ${version}`;
  return (await versionOf("python3", "-m", "pip", "--version")) === undefined ? "python3 has no pip" : undefined;
}

const UNREACHABLE =
  /dial tcp|no such host|i\/o timeout|connection refused|network is unreachable|TLS handshake timeout|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|name resolution|from versions: none/i;

/** Runs a download. Answers why it cannot be done when the registry is out of reach; any other failure rejects. */
export async function download(registry: string, work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (thrown) {
    const { stderr = "" } = thrown as { readonly stderr?: string };
    const line = stderr.split("\n").find((one) => UNREACHABLE.test(one));
    if (line === undefined) throw thrown;
    return `${registry} is out of reach: ${line.trim()}`;
  }
}

if (import.meta.main) console.log(await versionOf("go", "version"), await versionOf("python3", "--version"));
