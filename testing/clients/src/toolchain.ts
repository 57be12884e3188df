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
  /** RUN_MS_MAX where it is absent. */
  readonly timeoutMs?: number;
}

/** Maximum time of one program: the slowest, a first download of Maven Central's files, takes two minutes on a busy machine. */
const RUN_MS_MAX = 300_000;

/** The standard output of a program; rejects with its standard error when it fails, or is ended after RUN_MS_MAX. */
export async function run(
  command: string,
  args: readonly string[],
  { cwd, env, timeoutMs = RUN_MS_MAX }: RunOptions = {},
): Promise<string> {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 64 * 1024 * 1024, timeout: timeoutMs, killSignal: "SIGKILL" } as const;
  try {
    return (await promisify(execFile)(command, args, options)).stdout;
  } catch (thrown) {
    if ((thrown as { readonly killed?: boolean }).killed !== true) throw thrown;
    const { stdout, stderr } = thrown as { readonly stdout: string; readonly stderr: string };
    const ended = new Error(`${command} ${args.join(" ")} did not end within ${timeoutMs / 1000} s and was killed`, { cause: thrown });
    throw Object.assign(ended, { stdout, stderr });
  }
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

/** Why Java clients cannot be built here; undefined: they can. */
export async function javaMissing(): Promise<string | undefined> {
  for (const tool of ["javac", "mvn"]) if ((await versionOf(tool, "--version")) === undefined) return `${tool} is not installed`;
  return undefined;
}

const UNREACHABLE =
  /dial tcp|no such host|Unknown host|connect timed out|i\/o timeout|connection refused|network is unreachable|TLS handshake timeout|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|name resolution|from versions: none/i;

/** Runs a download. Answers why it cannot be done when the registry is out of reach; any other failure rejects. */
export async function download(registry: string, work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (thrown) {
    // Maven prints its errors to standard output.
    const { stderr = "", stdout = "" } = thrown as { readonly stderr?: string; readonly stdout?: string };
    const line = `${stderr}\n${stdout}`.split("\n").find((one) => UNREACHABLE.test(one));
    if (line === undefined) throw thrown;
    return `${registry} is out of reach: ${line.trim()}`;
  }
}

if (import.meta.main) console.log(await versionOf("go", "version"), await versionOf("python3", "--version"));
