// A verb run in this process, with what it printed.
import { PassThrough, Readable } from "node:stream";
import { nodeClock } from "@concord/adapter-node-runtime";
import type { Command, CommandIo } from "../cli/command.ts";

export interface VerbRun {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface VerbOptions {
  /** Standard input. */
  readonly input?: string;
  readonly isTerminal?: boolean;
  readonly signal?: AbortSignal;
  /** Called with all output so far, whenever there is more. */
  readonly onOutput?: (out: string) => void;
}

export async function runVerbHere(command: Command, args: readonly string[], options: VerbOptions = {}): Promise<VerbRun> {
  const printed = { out: "", err: "" };
  const print = (to: keyof typeof printed, text: string): void => {
    printed[to] += text;
    options.onOutput?.(printed.out);
  };
  const output = new PassThrough().on("data", (bytes: Buffer) => print("out", bytes.toString()));
  const io: CommandIo = {
    out: (text) => print("out", `${text}\n`),
    err: (text) => print("err", `${text}\n`),
    input: Readable.from(options.input === undefined ? [] : [options.input]),
    output,
    isTerminal: options.isTerminal ?? false,
    env: {},
    clock: nodeClock,
    stopSignal: () => options.signal ?? new AbortController().signal,
  };
  const code = await command.run(args, io);
  return { code, ...printed };
}
