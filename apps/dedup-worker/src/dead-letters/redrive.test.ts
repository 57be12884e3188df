// Redrive: content and pace, over logs in memory; at the end the real program.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { IngestService, OutputService, type LogMessage, type MessageInit } from "@concord/protos-dedup";
import { callUnary } from "@concord/rpc";
import { ConcordError, type Clock } from "@concord/runtime";
import { transport, WorkerProcesses } from "../test/worker-process.ts";
import { deadLettersCommandOf } from "./command.ts";
import { listDeadLetters, redriveDeadLetters, type Counts, type RedriveOptions } from "./redrive.ts";

const utf8 = (text: string): Buffer => Buffer.from(text);
const NO_BYTES = Buffer.alloc(0);

function letter(offset: number, more: Partial<LogMessage> = {}): LogMessage {
  const headers = [
    { name: "trace", value: utf8(`t${offset}`), nullValue: false },
    { name: "concord-reason", value: utf8("no key"), nullValue: false },
  ];
  const content = { value: utf8(`v${offset}`), nullValue: false, key: NO_BYTES, emptyKey: false };
  return { offset: BigInt(offset), id: "", ...content, headers, timestampMs: 7n, source: "", ...more };
}

interface Fixture extends RedriveOptions {
  readonly sent: (readonly MessageInit[])[];
  readonly sources: string[];
  readonly letters: LogMessage[];
  readonly said: string[];
  readonly pausesMs: number[];
  readonly kept: Map<number, bigint>[];
}

/** One partition of dead letters; each message sent again is accepted, unless `ingest` throws or says otherwise. */
function fixture(
  count: number,
  { ingest, ...more }: Partial<RedriveOptions> & { readonly ingest?: (message: MessageInit) => string } = {},
): Fixture {
  const letters = Array.from({ length: count }, (_, at) => letter(at));
  const [sent, sources, said, pausesMs]: [MessageInit[][], string[], string[], number[]] = [[], [], [], []];
  const kept: Map<number, bigint>[] = [];
  let nowMs = 0;
  const clock = {
    monotonicMs: () => nowMs,
    setTimer: (delayMs: number, action: () => void) => {
      pausesMs.push(delayMs);
      nowMs += delayMs;
      setImmediate(action);
      return { cancel: () => undefined };
    },
  } as unknown as Clock;
  const log: RedriveOptions["log"] = {
    bounds: async () => ({ start: letters[0]?.offset ?? 0n, end: (letters.at(-1)?.offset ?? -1n) + 1n, partitions: 1 }),
    read: async (_partition, from, most) => {
      const messages = letters.filter(({ offset }) => offset >= from).slice(0, most);
      return { messages, next: (messages.at(-1)?.offset ?? from - 1n) + 1n };
    },
    ingest: async (messages, source) => {
      const statuses = messages.map((message) => ingest?.(message) ?? "VERDICT_ACCEPTED");
      sent.push([...messages]);
      sources.push(source);
      return statuses.map((status) => ({ verdict: status, partition: 0, offset: 0n, id: "" })) as Awaited<
        ReturnType<RedriveOptions["log"]["ingest"]>
      >;
    },
  };
  const positions = {
    load: () => kept.at(-1) ?? new Map<number, bigint>(),
    save: (next: ReadonlyMap<number, bigint>) => void kept.push(new Map(next)),
  };
  const say = (line: string): void => void said.push(line);
  return { log, positions, perSecond: 100, isDryRun: false, clock, say, ...more, sent, sources, letters, said, pausesMs, kept };
}

const offsetsOf = ({ sent }: Fixture): readonly string[] =>
  sent.flat().map(({ headers }) => Buffer.from(headers!.find(({ name }) => name === "redriven")!.value!).toString());

test("redrive: each dead letter is sent as it was, without the pipeline's headers, with one that names it", async () => {
  const made = fixture(0);
  const headers = [
    { name: "trace", value: NO_BYTES, nullValue: true },
    { name: "redriven", value: utf8("0-1"), nullValue: false },
    { name: "trace", value: utf8("2"), nullValue: false },
    { name: "concord-origin", value: utf8("o"), nullValue: false },
  ];
  made.letters.push(letter(4, { key: NO_BYTES, emptyKey: true, value: NO_BYTES, nullValue: true, headers, timestampMs: 9n }));
  await redriveDeadLetters(made);
  const redriven = { name: "redriven", value: utf8("0-4") };
  assert.deepEqual(made.sent, [
    [
      {
        key: NO_BYTES,
        emptyKey: true,
        value: NO_BYTES,
        nullValue: true,
        headers: [headers[0], headers[2], redriven],
        timestampMs: 9n,
        fallbackId: "redriven-0-4-6f",
      },
    ],
  ]);
});

test("redrive: what is a dead letter again is not sent twice: it ends where the log ended when it began", async () => {
  // The second page has the last letter of before, and new ones.
  const made: Fixture = fixture(4, {
    perSecond: 3,
    ingest: () => {
      made.letters.push(letter(made.letters.length));
      return "VERDICT_DEAD_LETTERED";
    },
  });
  const counts = await redriveDeadLetters(made);
  assert.deepEqual([offsetsOf(made), counts.again, made.kept.at(-1)], [["0-0", "0-1", "0-2", "0-3"], 4, new Map([[0, 4n]])]);
});

test("redrive: 250 at 50 a second: pages of 50, a second between them, progress, the position kept after each", async () => {
  const made = fixture(250, { perSecond: 50 });
  assert.equal((await redriveDeadLetters(made)).accepted, 250);
  assert.deepEqual(
    made.sent.map(({ length }) => length),
    [50, 50, 50, 50, 50],
  );
  assert.deepEqual(made.pausesMs, [1_000, 1_000, 1_000, 1_000]);
  assert.deepEqual(
    made.kept.map((next) => next.get(0)),
    [50n, 100n, 150n, 200n, 250n],
  );
  assert.equal(made.said.at(-1), "partition 0: 250 sent, up to 250 of 250");
});

test("redrive: a call fails for good: the next redrive goes on from the page that has no results", async () => {
  let isBroken = true;
  const made = fixture(150, {
    ingest: ({ value }) => {
      if (isBroken && Buffer.from(value!).toString() === "v120") throw new ConcordError("CONNECTION_LOST", "gone");
      return "VERDICT_ACCEPTED";
    },
  });
  await assert.rejects(redriveDeadLetters(made), /gone/);
  isBroken = false;
  await redriveDeadLetters(made);
  assert.deepEqual(
    offsetsOf(made),
    Array.from({ length: 150 }, (_, at) => `0-${at}`),
  );
});

test("redrive: a message beyond the limits: named and counted, the others of its call are sent", async () => {
  const made = fixture(3, {
    ingest: ({ value }) => {
      if (Buffer.from(value!).toString() === "v1") throw new ConcordError("LIMIT_EXCEEDED", "headers of message 0: 65, at most 64");
      return "VERDICT_ACCEPTED";
    },
  });
  const expected: Counts = { accepted: 2, duplicates: 0, again: 0, refused: 1 };
  assert.deepEqual(await redriveDeadLetters(made), expected);
  assert.deepEqual([offsetsOf(made), made.said[0]], [["0-0", "0-2"], "0-1 cannot be sent: headers of message 0: 65, at most 64"]);
});

test("redrive: a dead letter that no call can carry: named and counted, listed, those around it are sent", async () => {
  const made = fixture(3);
  const { read } = made.log;
  const log: RedriveOptions["log"] = {
    ...made.log,
    read: async (partition, from, most) => {
      if (from === 1n) return { messages: [], next: 2n, tooLarge: { offset: 1n, reason: "it has 5 MB" } };
      const { messages } = await read(partition, from, most);
      return { messages: messages.slice(0, 1), next: from + 1n };
    },
  };
  assert.deepEqual(await redriveDeadLetters({ ...made, log }), { accepted: 2, duplicates: 0, again: 0, refused: 1 });
  assert.deepEqual([offsetsOf(made), made.said.includes("0-1 cannot be sent: it has 5 MB")], [["0-0", "0-2"], true]);
  made.said.length = 0;
  await listDeadLetters({ ...made, log });
  assert.deepEqual([made.said[1], made.said[3]], ["0-1 cannot be shown: it has 5 MB", "partition 0: 3 dead letters"]);
});

test("redrive: of several sources: one call for each run of one source, in order", async () => {
  const made = fixture(0);
  made.letters.push(letter(0, { source: "a" }), letter(1, { source: "a" }), letter(2), letter(3, { source: "a" }));
  await redriveDeadLetters(made);
  assert.deepEqual(
    [made.sources, offsetsOf(made)],
    [
      ["a", "", "a"],
      ["0-0", "0-1", "0-2", "0-3"],
    ],
  );
});

test("redrive: --dry-run: shows what it would send; nothing is sent, no position is kept", async () => {
  const made = fixture(3, { isDryRun: true });
  await redriveDeadLetters(made);
  assert.deepEqual([made.sent, made.kept, made.said.length], [[], [], 3]);
  assert.match(made.said[2]!, /^would send 0-2 .* 2 bytes "no key"$/);
});

test("redrive: letters that retention removed are named; a position behind the end is refused", async () => {
  const made = fixture(5);
  made.letters.splice(0, 3);
  made.kept.push(new Map([[0, 1n]]));
  await redriveDeadLetters(made);
  assert.deepEqual([offsetsOf(made), made.said[0]], [["0-3", "0-4"], "partition 0: dead letters 1 to 2 are not kept any more"]);
  made.kept.push(new Map([[0, 9n]]));
  await assert.rejects(redriveDeadLetters(made), /position is 9: it is another log's/);
});

test("command: its own words are taken, the worker's options left; what is none: usage, exit 2", () => {
  const processOf = (...argv: string[]) => {
    const exit = (code: number): never => {
      throw new Error(`exit ${code}`);
    };
    const stream = { write: () => undefined };
    return { argv: ["node", "main.ts", ...argv], env: {}, stdout: stream, stderr: stream, exit };
  };
  const { command, process } = deadLettersCommandOf(
    processOf("dead-letters", "redrive", "at.json", "--log", "kafka", "--per-second", "5", "--dry-run", "--partitions", "2"),
  );
  assert.deepEqual(command, { kind: "redrive", positionFile: "at.json", perSecond: 5, isDryRun: true });
  assert.deepEqual(process.argv.slice(2), ["--log", "kafka", "--partitions", "2"]);
  assert.equal(deadLettersCommandOf(processOf("--log", "kafka")).command, undefined);
  for (const wrong of [
    [],
    ["redrive"],
    ["redrive", "--dry-run"],
    ["redrive", "f", "--per-second", "0"],
    ["redrive", "f", "--per-second"],
    ["purge"],
  ])
    assert.throws(() => deadLettersCommandOf(processOf("dead-letters", ...wrong)), /exit 2/, wrong.join(" "));
});

const workers = await WorkerProcesses.create();
const folder = await mkdtemp(join(tmpdir(), "concord-redrive-"));
after(async () => {
  await workers[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function command(address: string, ...words: readonly string[]): Promise<Ran> {
  const args = [join(import.meta.dirname, "../main.ts"), "dead-letters", ...words, "--listen-address", address];
  const ended = promisify(execFile)(process.execPath, args).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Ran) => ({ code, stdout, stderr }),
  );
  return ended;
}

async function allOf(address: string, topic: "TOPIC_OUTPUT" | "TOPIC_DEAD_LETTERS"): Promise<readonly LogMessage[]> {
  const channel = transport.connect(address);
  try {
    const pages = [0, 1].map((partition) => callUnary(channel, OutputService.methods.Read, { topic, partition }, { timeoutMs: 30_000 }));
    return (await Promise.all(pages)).flatMap(({ messages }) => messages);
  } finally {
    channel.close();
  }
}

test("process: messages whose id was looked for in the wrong place: listed, sent again once the place is right, each once, the next redrive sends none", async () => {
  const wrong = await workers.start({ args: ["--id-source", "json:messageId", "--missing-id", "dead-letter"] });
  const channel = transport.connect(wrong.address);
  const messages: readonly MessageInit[] = Array.from({ length: 5 }, (_, at) => ({
    key: utf8(`key-${at}`),
    ...(at === 0 ? { nullValue: true } : { value: utf8(`value ${at}`) }),
    headers: [{ name: "trace", value: utf8(`t${at}`) }],
    timestampMs: 1_700_000_000_000n,
  }));
  await callUnary(channel, IngestService.methods.Ingest, { messages }, { timeoutMs: 30_000 });
  channel.close();
  const listed = await command(wrong.address, "list");
  assert.deepEqual([listed.code, listed.stdout.match(/"no header concord-id, (not JSON|no value)"/g)?.length], [0, 5], listed.stdout);
  wrong.child.kill("SIGTERM");
  await once(wrong.child, "exit");

  const { address, child } = await workers.start({ args: ["--id-source", "key", "--missing-id", "dead-letter"] });
  const at = join(folder, "at.json");
  const dry = await command(address, "redrive", at, "--dry-run");
  assert.deepEqual([dry.code, dry.stdout.match(/would send/g)?.length, await allOf(address, "TOPIC_OUTPUT")], [0, 5, []], dry.stderr);
  const first = await command(address, "redrive", at, "--per-second", "1000");
  assert.deepEqual(
    [first.code, first.stdout.trim().split("\n").at(-1)],
    [0, "5 accepted, 0 duplicates, 0 dead letters again, 0 not sent"],
    first.stderr,
  );
  const came = (await allOf(address, "TOPIC_OUTPUT")).map(({ id, key, value, nullValue, headers, timestampMs }) => {
    const theirs = headers
      .filter(({ name }) => !name.startsWith("concord-"))
      .map((header) => `${header.name}=${Buffer.from(header.value).toString()}`);
    return [
      id,
      Buffer.from(key).toString(),
      nullValue ? null : Buffer.from(value).toString(),
      theirs[0],
      timestampMs,
      theirs[1]?.slice(0, 9),
    ];
  });
  const expected = messages.map(({ value }, index) => [
    `key-${index}`,
    `key-${index}`,
    value === undefined ? null : Buffer.from(value).toString(),
    `trace=t${index}`,
    1_700_000_000_000n,
    "redriven=",
  ]);
  assert.deepEqual(
    came.toSorted((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1)),
    expected,
  );
  const again = await command(address, "redrive", at);
  assert.match(again.stdout, /^0 accepted, 0 duplicates/m);
  await rm(at);
  assert.match((await command(address, "redrive", at)).stdout, /^0 accepted, 5 duplicates/m);

  const foreign = (await readFile(at, "utf8")).replace(/"of":"[^"]*"/, '"of":"folder elsewhere"');
  await writeFile(at, foreign);
  const refused = await command(address, "redrive", at);
  assert.deepEqual([refused.code, /positions of the dead letters in folder elsewhere/.test(refused.stderr)], [1, true]);
  assert.equal((await allOf(address, "TOPIC_DEAD_LETTERS")).length, 5);
  child.kill("SIGTERM");
  await once(child, "exit");
});
