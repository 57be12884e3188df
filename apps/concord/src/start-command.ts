// `concord start`: all of Concord for one user of one machine, without a configuration. Addresses, folder and secrets are those of
// `npm start` in a clone, so that either goes on with the other's data.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ConfigProcess } from "@concord/config";
import type { Random } from "@concord/runtime";
import type { Announce } from "@concord/server";
import { CREDENTIALS_FILE, keptTokens } from "./kept-tokens.ts";
import type { Addresses } from "./service.ts";

const VERB_AT = 2;
const FOLDER_OPTION = "--data";
const FOLDER = ".concord";
const FOLDER_MODE = 0o700;

export const START_HELP = `usage: concord start [--data DIR] [options]

Runs all of Concord on loopback addresses: gRPC on 127.0.0.1:7101, metrics and probes on 7111, S3 on 7121; Ctrl-C drains it.

  --data DIR   where data, tokens and S3 credentials are kept; the next start finds them (default ./${FOLDER})

The options of \`concord --help\`, their variables and a --config FILE go before these defaults.
`;

export interface StartCommand {
  /** The process without the verb, with the command's defaults. */
  readonly process: ConfigProcess;
  /** Prints where it serves; its stop prints when it begins and when it is done. */
  readonly announce: Announce<Addresses>;
}

/** Makes the folder and its secrets; undefined: another verb or none. Prints and ends the process where help was asked for or \`--data\` has no folder. */
export function startCommandOf(process: ConfigProcess, random: Random): StartCommand | undefined {
  if (process.argv[VERB_AT] !== "start") return undefined;
  const { env, stdout, stderr } = process;
  const exit = (code: number): never => process.exit(code);
  const { folder, rest } = folderIn(process.argv.slice(VERB_AT + 1));
  if (rest.includes("--help")) {
    stdout.write(START_HELP);
    return exit(0);
  }
  if (folder === undefined) {
    stderr.write(`concord start: ${FOLDER_OPTION} needs a folder\n`);
    return exit(2);
  }
  const argv = [...process.argv.slice(0, VERB_AT), ...rest];
  return {
    process: { argv, env, stdout, stderr, exit, defaults: defaultsIn(resolve(folder), random) },
    announce: (addresses, running) => {
      const print = (text: string): void => void stdout.write(`${text}\n`);
      print(readyText(resolve(folder), addresses));
      const stop = async (): Promise<void> => {
        print("draining ...");
        await running.stop();
        print("stopped");
      };
      return { stop };
    },
  };
}

/** Undefined: the option is there without a folder. */
function folderIn(args: readonly string[]): { readonly folder: string | undefined; readonly rest: readonly string[] } {
  const at = args.findIndex((arg) => arg === FOLDER_OPTION || arg.startsWith(`${FOLDER_OPTION}=`));
  if (at < 0) return { folder: FOLDER, rest: args };
  const [, joined] = args[at]!.split(/=(.*)/s);
  const value = joined ?? args[at + 1];
  const folder = value === undefined || value === "" || value.startsWith("--") ? undefined : value;
  return { folder, rest: args.toSpliced(at, joined === undefined ? 2 : 1) };
}

function defaultsIn(folder: string, random: Random): Readonly<Record<string, unknown>> {
  mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  const { coordinator, peer, operator, accessKeys } = keptTokens(folder, random);
  return {
    listenAddress: "127.0.0.1:7101",
    adminAddress: "127.0.0.1:7111",
    httpAddress: "127.0.0.1:7121",
    datacenter: "dc1",
    dataFolder: join(folder, "concord/store"),
    coordinatorToken: coordinator,
    peerToken: peer,
    operatorToken: operator,
    accessKeys,
    logLevel: "warn",
  };
}

function readyText(folder: string, { address, adminAddress, httpAddress }: Parameters<Announce<Addresses>>[0]): string {
  return [
    `gRPC   ${address}`,
    `admin  http://${adminAddress}   (/healthz /readyz /metrics)`,
    `S3     http://${httpAddress}   (export AWS_SHARED_CREDENTIALS_FILE=${join(folder, CREDENTIALS_FILE)})`,
    `data   ${folder}`,
    "ready; Ctrl-C drains",
  ].join("\n");
}
