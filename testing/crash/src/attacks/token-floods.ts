// A client with a token that waits in as many calls, streams and locks as it is given: one with a name of its own, then one at an address of its own.
import { connect, type ClientHttp2Session } from "node:http2";
import { connect as connectTcp } from "node:net";
import type { Attack, Target } from "./attack.ts";
import { framed, request } from "./grpc-strangers.ts";

const READ = "/concord.dedup.v1.OutputService/Read";
const READS = 4_200;
/** HTTP/2 allows a connection only so many streams at a time. */
const CONNECTIONS = 24;
const CONSUME = "/concord.dedup.v1.OutputService/Consume";
const CONSUMERS = 1_100;
const LOCK_WAITS = 300;
/** `ReadRequest {topic: TOPIC_DEAD_LETTERS, wait_ms: 60000}`: that log is empty. */
const WAITING_READ = framed(Buffer.from([0x08, 0x02, 0x28, 0xe0, 0xd4, 0x03]));
/** `ConsumeRequest {start: {topic: TOPIC_DEAD_LETTERS, credits: 1}}`. */
const CONSUME_START = framed(Buffer.from([0x0a, 0x04, 0x08, 0x02, 0x20, 0x01]));
/** `ConsumeRequest {start: {topic: TOPIC_OUTPUT, credits: 1}}`: others put messages there all the time. */
const CONSUME_OUTPUT = framed(Buffer.from([0x0a, 0x04, 0x08, 0x01, 0x20, 0x01]));
const CONSUME_MS = 60_000;
const OVERLOADED = "8";
/** Two floods, one right after the other: 125 MiB for the first, 50 more for the second, and caches. */
const GROWTH_MIB_MAX = 256;
/** Shares the others' address, but not their token. */
const FLOODER = { name: "flooder", role: "client", token: "token-of-the-client-that-floods" };
/** Others are at 127.0.0.1. */
const OTHER_ADDRESS = "127.0.0.2";

export const tokenFloods: Attack = {
  name: "token-floods",
  symptom: "4 200 waiting reads of one client took all 4096 calls in flight, without a share: calls of other users were refused",
  isShort: true,
  config: { callers: [FLOODER] },
  growthMiBMax: GROWTH_MIB_MAX,
  async run(target) {
    const db = await target.client.connect({ coordinators: [target.address], token: FLOODER.token });
    try {
      const release = await holdLock(db);
      await floodWhileOthersWork(target, "a client with another token", FLOODER.token, "127.0.0.1");
      release();
    } finally {
      db.close();
    }
    await floodWhileOthersWork(target, "a client at another address", target.clientToken, OTHER_ADDRESS);
    await target.serves("after that client has gone");
  },
};

async function floodWhileOthersWork(target: Target, who: string, token: string, localAddress: string): Promise<void> {
  const [host, port] = target.address.split(":") as [string, string];
  const open = (): ClientHttp2Session =>
    connect(`http://${target.address}`, { createConnection: () => connectTcp({ host, port: Number(port), localAddress }) });
  const sessions = Array.from({ length: CONNECTIONS }, () => open().on("error", () => undefined));
  try {
    const outcomes = flood(sessions, { authorization: `Bearer ${token}` });
    await target.serves(`while ${who} waits in calls, streams and locks`);
    await consumes(target, who);
    const { refused, ended } = outcomes();
    target.note(`${READS} reads and ${CONSUMERS} streams of ${who}: ${refused} refused, ${READS + CONSUMERS - ended} still waiting`);
    if (refused === 0) target.fail(`${who} got every place that it asked for`);
    if (refused < ended) target.fail(`${ended - refused} calls of ${who} ended without waiting: it did not attack`);
  } finally {
    for (const session of sessions) session.destroy();
  }
}

/** An honest consumer begins during the flood and gets a message. */
async function consumes(target: Target, who: string): Promise<void> {
  const session = connect(`http://${target.address}`).on("error", () => undefined);
  const stream = request(session, CONSUME, { authorization: `Bearer ${target.clientToken}` });
  const first = new Promise<string | undefined>((resolve) => {
    stream.on("data", () => resolve(undefined)).on("close", () => resolve("it was refused"));
    stream.setTimeout(CONSUME_MS, () => resolve(`no message came in ${CONSUME_MS / 1000} s`));
    stream.write(CONSUME_OUTPUT);
  });
  const problem = await first;
  session.destroy();
  if (problem !== undefined) target.fail(`a Consume of another user while ${who} waits: ${problem}`);
}

/** Opens all calls; answers how many were refused and how many have ended. */
function flood(sessions: readonly ClientHttp2Session[], headers: object): () => { refused: number; ended: number } {
  let refused = 0;
  let ended = 0;
  for (let at = 0; at < READS + CONSUMERS; at += 1) {
    const isRead = at < READS;
    const stream = request(sessions[at % CONNECTIONS]!, isRead ? READ : CONSUME, headers);
    const onFields = (fields: { readonly "grpc-status"?: unknown }): void => void (fields["grpc-status"] === OVERLOADED && (refused += 1));
    stream
      .on("response", onFields)
      .on("trailers", onFields)
      .on("close", () => (ended += 1));
    if (isRead) stream.end(WAITING_READ);
    else stream.write(CONSUME_START);
  }
  return () => ({ refused, ended });
}

type Db = Awaited<ReturnType<Target["client"]["connect"]>>;

/** One transaction holds a row, others wait for it; what it resolves with releases it. */
async function holdLock(db: Db): Promise<() => void> {
  const entity = { table: "Counted", key: { id: 2n } };
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  let locked: () => void = () => undefined;
  const holds = new Promise<void>((resolve) => (locked = resolve));
  const holder = db.runTransaction(entity, async (txn) => {
    await txn.lock("Counted", { id: 2n });
    locked();
    await released;
  });
  holder.catch(() => undefined);
  await holds;
  for (let at = 0; at < LOCK_WAITS; at += 1) {
    db.runTransaction(entity, async (txn) => void (await txn.lock("Counted", { id: 2n }))).catch(() => undefined);
  }
  return release;
}
