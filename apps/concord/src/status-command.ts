// `concord status`: whether a running process serves, part by part, by the pages of its admin port.
import { parseArgs } from "node:util";
import { z } from "@concord/config";
import type { Clock } from "@concord/runtime";

const DEFAULT_ADDRESS = "127.0.0.1:7111";
const TIMEOUT_MS = 10_000;

export const STATUS_HELP = `usage: concord status [--admin HOST:PORT] [--json]

Prints whether a process serves, why not, and the state of each of its parts.

  --admin HOST:PORT   the admin port of the process (default ${DEFAULT_ADDRESS})
  --json              one JSON object in place of the table

Exit code 0: ready. 1: it runs and is not ready. 2: wrong arguments, or no answer.

examples:
  concord status
  concord status --admin 10.0.0.5:7111 --json
`;

export type StatusExit = 0 | 1 | 2;

export interface Output {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
}

interface Arguments {
  readonly admin: string;
  readonly json: boolean;
  readonly help: boolean;
}

const partsSchema = z.record(
  z.string(),
  z.looseObject({ kind: z.string(), for: z.string().optional(), reason: z.string().optional(), problem: z.string().optional() }),
);

interface Status {
  readonly address: string;
  readonly ready: boolean;
  /** Lines of /readyz. */
  readonly text: readonly string[];
  readonly parts: z.output<typeof partsSchema>;
}

export async function statusCommand(args: readonly string[], output: Output, clock: Pick<Clock, "setTimer">): Promise<StatusExit> {
  const given = argumentsOf(args);
  if (typeof given === "string") {
    output.err(`concord status: ${given}`);
    return 2;
  }
  if (given.help) {
    output.out(STATUS_HELP);
    return 0;
  }
  const late = new AbortController();
  const timer = clock.setTimer(TIMEOUT_MS, () => late.abort(new Error(`not within ${TIMEOUT_MS / 1000} s`)));
  const status = await statusOf(given.admin, late.signal).catch((thrown: unknown) => reasonOf(thrown));
  timer.cancel();
  if (typeof status === "string") {
    output.err(`concord status: no answer from the admin port ${given.admin}: ${status}`);
    return 2;
  }
  output.out(given.json ? JSON.stringify(status) : tableOf(status));
  return status.ready ? 0 : 1;
}

/** A text: what is wrong with them. */
function argumentsOf(args: readonly string[]): Arguments | string {
  const options = {
    admin: { type: "string", default: DEFAULT_ADDRESS },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  } as const;
  try {
    return parseArgs({ args: [...args], options }).values;
  } catch (thrown) {
    return reasonOf(thrown);
  }
}

async function statusOf(address: string, signal: AbortSignal): Promise<Status> {
  const get = (path: string): Promise<Response> => fetch(`http://${address}${path}`, { signal });
  const [readyz, parts] = await Promise.all([get("/readyz"), get("/parts")]);
  return {
    address,
    ready: readyz.status === 200,
    text: (await readyz.text()).trim().split("\n"),
    parts: parts.status === 200 ? partsSchema.parse(await parts.json()) : {},
  };
}

function tableOf({ address, text, parts }: Status): string {
  const rows = Object.entries(parts).map(([name, { kind, for: needed = "", reason, problem }]) => [
    name,
    kind,
    reason ?? problem ?? needed,
  ]);
  const widths = [0, 1].map((column) => Math.max(0, ...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  return [`${address}: ${text.join("; ")}`, ...lines].join("\n");
}

/** A failed fetch has its reason in the cause. */
function reasonOf(thrown: unknown): string {
  const { cause, message } = thrown instanceof Error ? thrown : new Error(String(thrown));
  return cause instanceof Error && cause.message !== "" ? cause.message : message;
}
