// A client with a token that waits in as many calls, streams and locks as it is given, on connections of its own address.
import { connect, type ClientHttp2Session } from "node:http2";
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
const OVERLOADED = "8";

export const tokenFloods: Attack = {
  name: "token-floods",
  symptom: "4 200 waiting reads of one client took all 4096 calls in flight, without a share: calls of other users were refused",
  isShort: true,
  async run(target) {
    const sessions = Array.from({ length: CONNECTIONS }, () => connect(`http://${target.address}`).on("error", () => undefined));
    const db = await target.client.connect({ coordinators: [target.address], token: target.clientToken });
    try {
      const release = await holdLock(db);
      const headers = { authorization: `Bearer ${target.clientToken}` };
      const outcomes = flood(sessions, headers);
      await target.serves("while one client waits in calls, streams and locks");
      const { refused, ended } = outcomes();
      target.note(`${READS} reads and ${CONSUMERS} streams of one client: ${refused} refused, ${READS + CONSUMERS - ended} still waiting`);
      if (refused === 0) target.fail("one client got every place that it asked for");
      release();
    } finally {
      for (const session of sessions) session.destroy();
      db.close();
    }
    await target.serves("after that client has gone");
  },
};

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
