// `txn-coordinator coordinators list|add|remove`, `dedup-worker workers ...`: shows or changes a list of members while they run (TX32).
import type { ConfigProcess } from "@concord/config";
import { MemberListService, type GetListResponse } from "@concord/protos-cluster";
import type { ListChange } from "@concord/ownership";
import { bearer, callUnary, Channels } from "@concord/rpc";
import { ConcordError, sleep, toConcordError, type Channel, type Clock, type Transport } from "@concord/runtime";
import { COMMAND_CALL_TIMEOUT_MS, COMMAND_POLL_MS, COMMAND_TIMEOUT_MS } from "./limits.ts";
import type { ListKind } from "./list-kind.ts";
import { changeToWire, memberShape } from "./list-wire.ts";

export type ListCommand = { readonly kind: "list" } | ListChange;

export function listUsage({ program, noun, member, units, token }: ListKind): string {
  return `usage: ${program} ${noun} list
       ${program} ${noun} add NAME HOST:PORT DATACENTER
       ${program} ${noun} remove NAME
  with the options of any ${member}; it asks the ${noun} that they name, with operatorToken or ${token}.
  A ${member} that is added may run already: it waits until it is in the list. One that is removed hands its ${units} over and ends.
`;
}

/** In front of it the interpreter and the script. */
const COMMAND_AT = 2;

/** The command in front of the options, and the process without it. Prints the usage and ends the process with 2 when it is none. */
export function listCommandOf(
  list: ListKind,
  process: ConfigProcess,
): { readonly command: ListCommand | undefined; readonly process: ConfigProcess } {
  const [name, ...words] = process.argv.slice(COMMAND_AT);
  if (name !== list.noun) return { command: undefined, process };
  const options = words.findIndex((word) => word.startsWith("-"));
  const given = options < 0 ? words : words.slice(0, options);
  const command = commandOf(given);
  if (command === undefined) {
    process.stderr.write(listUsage(list));
    return process.exit(2);
  }
  const { env, stdout, stderr } = process;
  const argv = [...process.argv.slice(0, COMMAND_AT), ...words.slice(given.length)];
  return { command, process: { argv, env, stdout, stderr, exit: (code) => process.exit(code) } };
}

function commandOf([verb, name, address, datacenter, ...more]: readonly string[]): ListCommand | undefined {
  if (verb === "list" && name === undefined) return { kind: "list" };
  if (verb === "remove" && name !== undefined && address === undefined) return { kind: "remove", name };
  const added = memberShape.safeParse({ name, address, datacenter });
  if (verb === "add" && added.success && datacenter !== undefined && more.length === 0) return { kind: "add", ...added.data };
  return undefined;
}

export interface ListCallOptions {
  readonly list: ListKind;
  /** Of members; each is asked until one answers. */
  readonly addresses: readonly string[];
  readonly transport: Transport;
  readonly token: string | undefined;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** What is waited for, and each version of the list. */
  readonly say: (line: string) => void;
}

/** Changes the list step by step until it is as asked for. Repeating it after a failure goes on where that one stopped. */
export async function changeList(change: ListChange, options: ListCallOptions): Promise<GetListResponse> {
  const { clock, timeoutMs, say } = options;
  const request = { ...changeToWire(change), kind: options.list.wire };
  const calls = new ListCalls(options);
  const endsAtMs = clock.monotonicMs() + timeoutMs;
  let said = "";
  try {
    while (clock.monotonicMs() < endsAtMs) {
      const answer = await calls.tried((channel, call) => callUnary(channel, MemberListService.methods.ChangeList, request, call));
      if (answer?.done === true) return answer.list!;
      const line = answer === undefined ? calls.problem : answer.waitsFor !== "" ? answer.waitsFor : textOfList(answer.list!);
      if (line !== said) say(line);
      said = line;
      await sleep(clock, COMMAND_POLL_MS);
    }
  } finally {
    calls.close();
  }
  throw new ConcordError("DEADLINE_EXCEEDED", `not done within ${timeoutMs} ms: ${said}; the same command goes on from here`);
}

/** A list as lines of a table. */
export function textOfList({ version, members }: GetListResponse): string {
  const lines = members.map(({ name, address, datacenter, state }) => {
    return `  ${name} ${address} ${datacenter} ${state.replace("LISTED_STATE_", "").toLowerCase()}`;
  });
  return [`version ${version}${version === 0 ? " (as configured)" : ""}`, ...lines].join("\n");
}

/** Calls to any of the members: one that does not answer is passed over. */
class ListCalls {
  readonly #options: ListCallOptions;
  readonly #channels: Channels;
  #at = 0;
  /** Named by one that passes nothing on. */
  #master: string | undefined;
  problem = "";

  constructor(options: ListCallOptions) {
    this.#options = options;
    this.#channels = new Channels(options.transport);
  }

  /** The answer; undefined: none now, for `problem`. Throws what no repetition helps against. */
  async tried<Answer>(call: (channel: Channel, options: Parameters<typeof callUnary>[3]) => Promise<Answer>): Promise<Answer | undefined> {
    const { addresses, token } = this.#options;
    const address = this.#master ?? addresses[this.#at % addresses.length]!;
    this.#master = undefined;
    try {
      return await call(this.#channels.to(address), { timeoutMs: COMMAND_CALL_TIMEOUT_MS, metadata: bearer(token) });
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.kind === "rejected" || error.kind === "corrupt") throw error;
      this.problem = `no answer yet: ${error.message}`;
      this.#at += 1;
      if (error.code === "NOT_MASTER") this.#master = error.metadata["address"];
      return undefined;
    }
  }

  close(): void {
    this.#channels.close();
  }
}

export interface CommandOptions extends Pick<ListCallOptions, "list" | "addresses" | "transport" | "token" | "clock"> {
  readonly process: Pick<ConfigProcess, "stdout" | "stderr" | "exit">;
}

/** Prints what it did and ends the process: 0 when done, 1 with the reason when not. */
export async function endWithListCommand(command: ListCommand, { process, ...options }: CommandOptions): Promise<never> {
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const calls = { ...options, timeoutMs: COMMAND_TIMEOUT_MS, say };
  try {
    say(textOfList(command.kind === "list" ? await list(calls) : await changeList(command, calls)));
  } catch (thrown) {
    process.stderr.write(`${options.list.noun} ${command.kind}: ${toConcordError(thrown).message}\n`);
    return process.exit(1);
  }
  return process.exit(0);
}

async function list(options: ListCallOptions): Promise<GetListResponse> {
  const request = { kind: options.list.wire };
  const calls = new ListCalls(options);
  try {
    for (const _ of options.addresses) {
      const answer = await calls.tried((channel, call) => callUnary(channel, MemberListService.methods.GetList, request, call));
      if (answer !== undefined) return answer;
    }
    throw new ConcordError("CONNECTION_LOST", calls.problem);
  } finally {
    calls.close();
  }
}
