// Runs the samples of a document as a stranger would: the same commands in an empty folder, on a Node of their choice. Changed are only
// the addresses, which are this run's, and the two paths that the document makes up.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { type Constellation, ONE_PROCESS, PORT_BASE, planFromBase } from "@concord/constellation";
import type { Sample, Samples } from "./sample.ts";

const COMMAND_MS = 240_000;
/** What a stranger's shell does not have. */
const NOT_A_STRANGERS = /^(npm_|NX_|AWS_|CONCORD_|NODE_|INIT_CWD)/i;

export interface Stranger {
  /** An empty folder. */
  readonly folder: string;
  /** The program `node` of the stranger's PATH. */
  readonly node: string;
  /** The clone of the repository. */
  readonly clone: string;
  readonly dataFolder: string;
  readonly registry: string;
  /** Where the addresses of the document are; undefined: it has none. */
  readonly constellation: Constellation | undefined;
}

/** Output of each run, by file. */
export type Outputs = ReadonlyMap<string, readonly string[]>;

/** Sets up one folder, then runs each sample `times` times in a copy of its own. */
export async function runSamples({ setUp, samples }: Samples, stranger: Stranger, times: number): Promise<Outputs> {
  const outputs = new Map<string, readonly string[]>();
  const prepared = join(stranger.folder, "prepared");
  mkdirSync(prepared);
  await shell(setUp, prepared, stranger);
  for (const sample of samples) {
    const folder = join(stranger.folder, sample.file);
    cpSync(prepared, folder, { recursive: true });
    writeFileSync(join(folder, sample.file), withAddresses(sample.source, stranger.constellation));
    outputs.set(sample.file, await runSample(sample, folder, stranger, times));
  }
  return outputs;
}

/** One shell for everything, as the stranger has one: what the first command exports the last one sees. */
async function runSample(sample: Sample, folder: string, stranger: Stranger, times: number): Promise<readonly string[]> {
  const separator = "-- the next run --";
  const runs = Array.from({ length: times }, () => `echo "${separator}"\n${sample.run}`);
  const said = await shell(`${sample.setUp}${runs.join("")}`, folder, stranger);
  return said.split(`${separator}\n`).slice(1);
}

async function shell(commands: string, cwd: string, { node, clone, dataFolder, registry }: Stranger): Promise<string> {
  const kept = Object.entries(process.env).filter(([name]) => !NOT_A_STRANGERS.test(name));
  const path = pathWithout(process.env["PATH"] ?? "", clone);
  const env = {
    ...Object.fromEntries(kept),
    PATH: [dirname(node), path].join(delimiter),
    npm_config_registry: registry,
    npm_config_cache: join(dirname(cwd), "npm-cache"),
    npm_config_update_notifier: "false",
  };
  const script = commands.replaceAll("../concord", clone).replaceAll("/path/to/concord/.concord", dataFolder);
  try {
    return (await promisify(execFile)("bash", ["--norc", "-euc", script], { cwd, env, timeout: COMMAND_MS })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${script}\n${stdout ?? ""}${stderr ?? ""}`, { cause: error });
  }
}

/** Without the workspace's own programs. */
export function pathWithout(path: string, clone: string): string {
  return path
    .split(delimiter)
    .filter((folder) => !folder.startsWith(clone))
    .join(delimiter);
}

function withAddresses(source: string, constellation: Constellation | undefined): string {
  if (constellation === undefined) return source;
  const addresses = new Map(
    planFromBase(PORT_BASE, ONE_PROCESS).flatMap((node, at) => {
      const here = constellation.nodes[at]!;
      return [[node.address, here.address] as const, [node.httpAddress ?? "", here.httpAddress ?? ""] as const];
    }),
  );
  return source.replaceAll(/127\.0\.0\.1:\d+/g, (address) => {
    const here = addresses.get(address);
    if (here === undefined) throw new Error(`npm start listens on no ${address}`);
    return here;
  });
}
