// `concord messages`: what is in the logs of messages, as it comes, and messages that are sent.
import { createInterface } from "node:readline";
import type { ConcordClient, IngestedMessage, Messages, OutgoingMessage, StoredMessage } from "@concord/client";
import { command, numberOption, textOption, UsageError, type CommandIo, type ExitCode } from "./command.ts";
import { CONNECTION_HELP, CONNECTION_OPTIONS, withClient } from "./connection.ts";
import { cellText, jsonLine, textTable } from "./text-table.ts";

const TOPICS = ["output", "dead-letters"] as const;
/** Messages of one call. */
const INGEST_BATCH = 100;
/** Length of a value in a line for people; JSON has it whole. */
const VALUE_CHARACTERS_MAX = 80;

const HELP = `usage: concord messages bounds [options]
       concord messages tail [options]
       concord messages ingest VALUE... [--id ID] [options]
       concord messages ingest - [options]

bounds: where the log of each partition begins and ends. tail: its messages as they come, until Ctrl-C. ingest: sends each VALUE, or each line of
standard input, and prints what became of it; with --json a line is an object with value and, if given, id and key.

  --topic NAME          output (default) or dead-letters
  --partition N         tail: this one alone (default all)
  --from OFFSET         tail: from there (default: what comes from now on)
  --limit N             tail: ends after so many messages
  --id ID               ingest: of the one VALUE; copies with the same id come out once (default: a new one)
  --source NAME         ingest: whose ids these are
  --json                a JSON object a line; values are text where they are UTF-8, else 0x...
${CONNECTION_HELP}

Exit code 0: done. 1: a call failed, or a message became a dead letter. 2: wrong arguments, or no server answers.

examples:
  concord messages tail --from 0 --limit 10
  concord messages ingest '{"user":7}' --id order-4711 --source shop
`;

const ANY_NUMBER = { min: 0, max: Number.MAX_SAFE_INTEGER };

type Topic = (typeof TOPICS)[number];

interface Wanted {
  readonly db: ConcordClient;
  readonly topic: Topic;
  readonly json: boolean;
  readonly partition: number | undefined;
  readonly from: number | undefined;
  readonly limit: number | undefined;
  readonly id: string | undefined;
  readonly source: string | undefined;
  readonly io: CommandIo;
}

const VERBS: Readonly<Record<string, (wanted: Wanted, given: readonly string[]) => Promise<ExitCode>>> = { bounds, tail, ingest };

export const messagesCommand = command(
  {
    name: "messages",
    summary: "logs of messages: bounds, tail, ingest",
    help: HELP,
    options: {
      ...CONNECTION_OPTIONS,
      topic: { type: "string" },
      partition: { type: "string" },
      from: { type: "string" },
      limit: { type: "string" },
      id: { type: "string" },
      source: { type: "string" },
      json: { type: "boolean" },
    },
  },
  async ({ values, positionals: [verb, ...given] }, io) => {
    const run = verb !== undefined && Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (run === undefined) throw new UsageError(`${verb ?? "nothing"} is none of ${Object.keys(VERBS).join(", ")}`);
    const topic = TOPICS.find((name) => name === (textOption(values, "topic") ?? "output"));
    if (topic === undefined) throw new UsageError(`--topic takes ${TOPICS.join(" or ")}`);
    if (verb === "ingest" && given.length === 0) throw new UsageError("nothing to ingest: give a VALUE, or - for standard input");
    if (textOption(values, "id") !== undefined && (given.length !== 1 || given[0] === "-")) throw new UsageError("--id is of one VALUE");
    const wanted = {
      topic,
      json: values["json"] === true,
      partition: numberOption(values, "partition", ANY_NUMBER),
      from: numberOption(values, "from", ANY_NUMBER),
      limit: numberOption(values, "limit", { ...ANY_NUMBER, min: 1 }),
      id: textOption(values, "id"),
      source: textOption(values, "source"),
      io,
    };
    return await withClient("messages", values, "messages", io, (db) => run({ db, ...wanted }, given));
  },
);

async function partitionsOf(messages: Messages): Promise<readonly number[]> {
  const { partitions } = await messages.bounds(0);
  return Array.from({ length: partitions }, (_, partition) => partition);
}

async function bounds({ db: { messages }, topic, json, io }: Wanted): Promise<ExitCode> {
  const partitions = await partitionsOf(messages);
  const rows = await Promise.all(
    partitions.map(async (partition) => {
      const { start, end } = await messages.bounds(partition, { topic });
      return { partition, start, end, messages: end - start };
    }),
  );
  if (json) rows.forEach((row) => io.out(jsonLine(row)));
  else
    io.out(
      textTable(
        ["partition", "start", "end", "messages"],
        rows.map((row) => Object.values(row).map(cellText)),
      ),
    );
  return 0;
}

async function tail(wanted: Wanted): Promise<ExitCode> {
  const { topic, partition: only, from, io } = wanted;
  const { messages } = wanted.db;
  const stopping = new AbortController();
  const signal = AbortSignal.any([io.stopSignal(), stopping.signal]);
  let left = wanted.limit ?? Infinity;
  const follow = async (partition: number): Promise<void> => {
    const start = from === undefined ? (await messages.bounds(partition, { topic })).end : BigInt(from);
    for await (const message of messages.follow(partition, { topic, from: start, signal })) {
      if (left <= 0) return;
      left -= 1;
      printMessage(partition, message, wanted);
      if (left <= 0) stopping.abort();
    }
  };
  try {
    await Promise.all((only === undefined ? await partitionsOf(messages) : [only]).map(follow));
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
  }
  return 0;
}

function printMessage(partition: number, message: StoredMessage, { json, io }: Wanted): void {
  const { offset, id, source, value, key, timestamp } = message;
  const shown = { partition, offset, id, source, key: shownBytes(key), value: shownBytes(value), timestamp };
  if (json) io.out(jsonLine({ ...shown, headers: message.headers.map((one) => ({ name: one.name, value: shownBytes(one.value) })) }));
  else
    io.out(
      [`${partition}/${offset}`, timestamp.toISOString(), cellText(source), cellText(id), shortened(cellText(shown.value))].join("  "),
    );
}

async function ingest(wanted: Wanted, given: readonly string[]): Promise<ExitCode> {
  const { id, source } = wanted;
  let isAllOut = true;
  for await (const batch of given[0] === "-" ? linesOf(wanted) : [given.map((value) => (id === undefined ? { value } : { id, value }))]) {
    const results = await wanted.db.messages.ingest(batch, source === undefined ? {} : { source });
    results.forEach((result) => printResult(result, wanted));
    isAllOut &&= results.every(({ verdict }) => verdict !== "dead-lettered");
  }
  return isAllOut ? 0 : 1;
}

function printResult(result: IngestedMessage, { json, io }: Wanted): void {
  const { id, verdict, partition, offset } = result;
  io.out(json ? jsonLine(result) : `${verdict}  ${partition}/${offset ?? "-"}  ${cellText(id)}`);
}

async function* linesOf({ io, json }: Wanted): AsyncGenerator<readonly OutgoingMessage[], void, undefined> {
  let batch: OutgoingMessage[] = [];
  for await (const line of createInterface({ input: io.input })) {
    batch.push(json ? messageOf(line) : { value: line });
    if (batch.length < INGEST_BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function messageOf(line: string): OutgoingMessage {
  const { value, id, key } = objectOf(line);
  const isText = (one: unknown): one is string | null | undefined => one === undefined || one === null || typeof one === "string";
  if (!isText(value) || value === undefined || !isText(key) || (id !== undefined && typeof id !== "string"))
    throw new UsageError(`a line needs value, and may have id and key, as texts: ${shortened(line)}`);
  return { value, ...(id === undefined ? {} : { id }), ...(key === undefined ? {} : { key }) };
}

function objectOf(line: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed === "object" && parsed !== null) return parsed as Record<string, unknown>;
  } catch {
    // Answered below.
  }
  throw new UsageError(`a line is no JSON object: ${shortened(line)}`);
}

/** Text where the bytes are UTF-8. */
function shownBytes(bytes: Uint8Array | null): string | Uint8Array | null {
  if (bytes === null) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return bytes;
  }
}

function shortened(text: string): string {
  return text.length <= VALUE_CHARACTERS_MAX ? text : `${text.slice(0, VALUE_CHARACTERS_MAX - 3)}...`;
}
