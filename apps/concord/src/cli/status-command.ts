// `concord status`: whether a running process serves, part by part, by the pages of its admin port.
import { z } from "@concord/config";
import { command, textOption, type CommandIo, type ExitCode } from "./command.ts";
import { textTable } from "./text-table.ts";

const DEFAULT_ADDRESS = "127.0.0.1:7111";
const TIMEOUT_MS = 10_000;

const HELP = `usage: concord status [--admin HOST:PORT] [--json]

Prints whether a process serves, why not, and the state of each of its parts.

  --admin HOST:PORT   the admin port of the process (default ${DEFAULT_ADDRESS})
  --json              one JSON object in place of the table

Exit code 0: ready. 1: it runs and is not ready. 2: wrong arguments, or no answer.

examples:
  concord status
  concord status --admin 10.0.0.5:7111 --json
`;

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

export const statusCommand = command(
  {
    name: "status",
    summary: "whether a running process serves, part by part",
    help: HELP,
    options: { admin: { type: "string" }, json: { type: "boolean" } },
  },
  ({ values }, io) => printStatus(textOption(values, "admin") ?? DEFAULT_ADDRESS, values["json"] === true, io),
);

async function printStatus(admin: string, json: boolean, { out, err, clock }: CommandIo): Promise<ExitCode> {
  const late = new AbortController();
  const timer = clock.setTimer(TIMEOUT_MS, () => late.abort(new Error(`not within ${TIMEOUT_MS / 1000} s`)));
  const status = await statusOf(admin, late.signal).catch((thrown: unknown) => reasonOf(thrown));
  timer.cancel();
  if (typeof status === "string") {
    err(`concord status: no answer from the admin port ${admin}: ${status}`);
    return 2;
  }
  out(json ? JSON.stringify(status) : tableOf(status));
  return status.ready ? 0 : 1;
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
  const rows = Object.entries(parts).map(([name, part]) => [name, part.kind, part.reason ?? part.problem ?? part.for ?? ""]);
  return [`${address}: ${text.join("; ")}`, ...(rows.length === 0 ? [] : [textTable([], rows)])].join("\n");
}

/** A failed fetch has its reason in the cause. */
function reasonOf(thrown: unknown): string {
  const { cause, message } = thrown instanceof Error ? thrown : new Error(String(thrown));
  return cause instanceof Error && cause.message !== "" ? cause.message : message;
}
