// Every verb of the program. Those that run it, or look at the files of a stopped one, read their own arguments.
import type { Build } from "@concord/config";
import type { Clock } from "@concord/runtime";
import type { Command, CommandIo, ExitCode } from "./command.ts";
import { completionCommand, type Verb } from "./completion-command.ts";
import { cqlCommand } from "./cql-command.ts";
import { messagesCommand } from "./messages-command.ts";
import { statusCommand } from "./status-command.ts";
import { textTable } from "./text-table.ts";
import { versionCommand } from "./version-command.ts";

const NODE_VERBS: readonly Verb[] = [
  { name: "start", summary: "all of it on this machine, without a configuration", options: ["data", "help"] },
  { name: "fsck", summary: "checks the data of a stopped node", options: ["blobs", "help"] },
  {
    name: "repair",
    summary: "mends what of it can be mended",
    options: ["apply", "from-peers", "unproven", "accept-loss", "help"],
  },
];

export function commandsOf(build: () => Build): readonly Command[] {
  const commands: Command[] = [statusCommand, cqlCommand, messagesCommand, versionCommand(build)];
  commands.push(completionCommand(() => verbsOf(commands)));
  return commands;
}

function verbsOf(commands: readonly Command[]): readonly Verb[] {
  return [...NODE_VERBS, ...commands.map(({ name, summary, options }) => ({ name, summary, options: Object.keys(options) }))];
}

/** The verbs as lines of `concord --help`. */
export function verbsText(build: () => Build): string {
  const lines = verbsOf(commandsOf(build)).map(({ name, summary }) => [`       concord ${name}`, summary]);
  return `usage: concord VERB [options]   (concord VERB --help says more)\n${textTable([], lines)}\n       concord [options]`;
}

/** Runs the verb; undefined: it is none of these. */
export async function runVerb(args: readonly string[], build: () => Build, clock: Pick<Clock, "setTimer">): Promise<ExitCode | undefined> {
  const [name, ...rest] = args;
  const found = commandsOf(build).find((command) => command.name === name);
  return await found?.run(rest, terminalIo(clock));
}

function terminalIo(clock: Pick<Clock, "setTimer">): CommandIo {
  // The reader of the output has gone: `| head`.
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => process.exit(code === "EPIPE" ? 0 : 1));
  return {
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => void process.stderr.write(`${text}\n`),
    input: process.stdin,
    output: process.stdout,
    isTerminal: process.stdin.isTTY,
    env: process.env,
    clock,
    stopSignal,
  };
}

function stopSignal(): AbortSignal {
  const stopping = new AbortController();
  // A second signal ends the process as the system does.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort());
  return stopping.signal;
}
