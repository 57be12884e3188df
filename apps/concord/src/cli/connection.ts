// The options by which verbs reach a running cluster.
import { readFile } from "node:fs/promises";
import { connect, ConcordClientError, type ConcordClient } from "@concord/client";
import type { CommandIo, ExitCode, OptionValues } from "./command.ts";
import { textOption, UsageError } from "./command.ts";

const DEFAULT_ADDRESS = "127.0.0.1:7101";
const TOKEN_VARIABLE = "CONCORD_TOKEN";

export const CONNECTION_OPTIONS = {
  address: { type: "string" },
  "token-file": { type: "string" },
  "tls-ca": { type: "string" },
} as const;

export const CONNECTION_HELP = `  --address HOST:PORT   the node, or several with commas (default ${DEFAULT_ADDRESS})
  --token-file FILE     the client token, where the servers ask for one (or the variable ${TOKEN_VARIABLE})
  --tls-ca FILE         certificates to trust, as PEM: the connection is by TLS`;

export type Purpose = "rows" | "messages";

/** Runs `work` with a connected client. 2, with the reason, when none of the addresses answers; 1 when a call fails. */
export async function withClient(
  name: string,
  values: OptionValues,
  purpose: Purpose,
  io: CommandIo,
  work: (db: ConcordClient) => Promise<ExitCode>,
): Promise<ExitCode> {
  const addresses = (textOption(values, "address") ?? DEFAULT_ADDRESS).split(",");
  const token = await tokenOf(values, io);
  const caFile = textOption(values, "tls-ca");
  const secrets = { ...(token === undefined ? {} : { token }), ...(caFile === undefined ? {} : { tls: { ca: await textOf(caFile) } }) };
  let db: ConcordClient;
  try {
    db = await connect(purpose === "rows" ? { coordinators: addresses, ...secrets } : { dedupWorker: addresses, ...secrets });
  } catch (thrown) {
    io.err(`concord ${name}: ${errorText(thrown)}`);
    return 2;
  }
  try {
    return await work(db);
  } catch (thrown) {
    io.err(`concord ${name}: ${errorText(thrown)}`);
    return 1;
  } finally {
    db.close();
  }
}

/** Code, text, whether anything was changed, and whether the same again can help. Anything else is thrown on. */
export function errorText(thrown: unknown): string {
  if (!(thrown instanceof ConcordClientError)) throw thrown;
  const { code, message, applied, retryable } = thrown;
  const effect = applied === "no" ? "" : applied === "yes" ? "; it was applied" : "; whether it was applied is not known";
  return `${code}: ${message}${effect}${retryable ? "; again can help" : ""}`;
}

async function tokenOf(values: OptionValues, { env }: CommandIo): Promise<string | undefined> {
  const file = textOption(values, "token-file");
  return file === undefined ? env[TOKEN_VARIABLE] : (await textOf(file)).trim();
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (thrown) {
    throw new UsageError(`${file} cannot be read: ${(thrown as Error).message}`);
  }
}
