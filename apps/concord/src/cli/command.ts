// Verbs of the program: what each needs and gives, and how its arguments are read.
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import type { Clock } from "@concord/runtime";

/** 0: done. 1: it ran and something is not right. 2: wrong arguments, or nothing that answers. */
export type ExitCode = 0 | 1 | 2;

export interface CommandIo {
  /** A line to standard output. */
  readonly out: (text: string) => void;
  /** A line to standard error. */
  readonly err: (text: string) => void;
  /** Standard input, and where a terminal's lines are edited. */
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, "setTimer">;
  /** Aborted by Ctrl-C and SIGTERM. A verb that never asks for it is ended by either at once, as the system does. */
  readonly stopSignal: () => AbortSignal;
}

export interface Command {
  readonly name: string;
  /** Half a line, behind `concord NAME`. */
  readonly summary: string;
  readonly help: string;
  readonly options: ParseArgsOptionsConfig;
  run(args: readonly string[], io: CommandIo): Promise<ExitCode>;
}

export type OptionValues = Readonly<Record<string, string | boolean | undefined>>;

export interface GivenArguments {
  readonly values: OptionValues;
  readonly positionals: readonly string[];
}

/** A verb whose `--help` and wrong arguments are answered here. */
export function command(
  { name, summary, help, options }: Omit<Command, "run">,
  run: (given: GivenArguments, io: CommandIo) => Promise<ExitCode>,
): Command {
  const allOptions = { ...options, help: { type: "boolean" } } as const;
  return {
    name,
    summary,
    help,
    options: allOptions,
    run: async (args, io) => {
      const given = argumentsOf(args, allOptions);
      if (typeof given !== "string" && given.values["help"] === true) {
        io.out(help);
        return 0;
      }
      const problem = typeof given === "string" ? given : await exitOf(() => run(given, io));
      if (typeof problem === "number") return problem;
      io.err(`concord ${name}: ${problem}\nconcord ${name} --help shows what it takes`);
      return 2;
    },
  };
}

/** Wrong arguments or input, found while the verb ran. */
export class UsageError extends Error {}

/** A text: what is wrong with the arguments. */
async function exitOf(run: () => Promise<ExitCode>): Promise<ExitCode | string> {
  try {
    return await run();
  } catch (thrown) {
    if (thrown instanceof UsageError) return thrown.message;
    throw thrown;
  }
}

function argumentsOf(args: readonly string[], options: ParseArgsOptionsConfig): GivenArguments | string {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
    return { values: values as OptionValues, positionals };
  } catch (thrown) {
    return (thrown as Error).message;
  }
}

export function textOption(values: OptionValues, name: string): string | undefined {
  const value = values[name];
  return typeof value === "string" ? value : undefined;
}

/** UsageError unless it is a whole number from `min` to `max`. */
export function numberOption(values: OptionValues, name: string, { min, max }: { min: number; max: number }): number | undefined {
  const text = textOption(values, name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || value < min || value > max)
    throw new UsageError(`--${name} takes a whole number from ${min} to ${max}, not ${text}`);
  return value;
}
