// Rows of several MiB, as writes through all nodes at one time make them, and then a node that was away, or whose disk is lost: no copy, repair, hint, read
// or listing stands at one of them.
import { readFileSync, rmSync } from "node:fs";
import type { ConcordClient } from "@concord/client";
import type { NodePlan } from "@concord/constellation";
import type { RowKey } from "@concord/ports";
import { imageOfStored } from "@concord/quorum";
import { decodeImage, liveRow } from "@concord/rows";
import type { Attack, Target } from "./attack.ts";
import { connectEach, healed, hints, Replica, type Ring, ringOf, settle } from "./replicas.ts";

const MIB = 1024 * 1024;
const COLUMNS = ["c0", "c1", "c2", "c3", "c4", "c5"];
const SHELF = "shelf";
const TABLE = `CREATE TABLE papers (shelf text, at int, note text, ${COLUMNS.map((name) => `${name} blob`).join(", ")}, PRIMARY KEY (shelf, at)) WITH kind = 'plain'`;
const LISTING = "SELECT at, note, c0 FROM papers WHERE shelf = ?";
const OF_ROW = "FROM papers WHERE shelf = ? AND at = ?";
/** The largest value, less what is beside it: two are below the limit of a row, three above. */
const VALUE_BYTES = MIB - 4096;
/** No message between nodes takes a row of this size: 4 MiB is the largest. */
const LARGE_BYTES = 4.2 * MIB;
/** At first, and while a node is dead. */
const LARGE_ROWS = [2, 1] as const;
const ROWS_MAX = 40;
/** Some changes for the node that is away are hints, the others are dropped for a comparison. */
const HINT_BYTES = 1.5 * MIB;
const NOTE = "x".repeat(16 * 1024);
const WRITE_MS = 60_000;
/** Attempts of a copy that may fail while the peers are busy. */
const COPY_FAILURES_MAX = 20;
const COPY_FAILED = "copying from the peers failed";

const keyOf = (at: number): RowKey => {
  return { table: "papers", partition: [{ kind: "text", value: SHELF }], clustering: [{ kind: "int", value: at }] };
};
const valueOf = (fill: number): Buffer => Buffer.alloc(VALUE_BYTES, 1 + (fill % 255));

/** Rows that were written, and what was acknowledged of them. */
class Papers {
  /** Values of columns by `at` and the position of the column. */
  readonly #rows = new Map<number, Map<number, Buffer>>();
  readonly large: number[] = [];
  #next = 0;
  #fill = 0;

  get rows(): readonly number[] {
    return [...this.#rows.keys()];
  }

  columnsOf(at: number): ReadonlyMap<number, Buffer> {
    return this.#rows.get(at) ?? new Map<number, Buffer>();
  }

  async write(db: ConcordClient, at: number, column: number): Promise<void> {
    const value = valueOf(this.#fill++);
    await db.update("papers", { shelf: SHELF, at, [COLUMNS[column]!]: value });
    const columns = this.#rows.get(at) ?? new Map<number, Buffer>();
    this.#rows.set(at, columns.set(column, value));
  }

  /** Another value for a column that each large row has: it becomes no larger. */
  async rewrite(target: Target, db: ConcordClient): Promise<void> {
    for (const at of this.large) {
      const column = Math.min(...this.columnsOf(at).keys());
      await answered(target, `a write to row ${at}`, () => this.write(db, at, column));
    }
  }

  /** Writes rows until there are so many more large ones. Each write is checked before another one is merged, so that together they pass the limit. */
  async grow(target: Target, clients: readonly ConcordClient[], replica: Replica, count: number): Promise<void> {
    const wanted = this.large.length + count;
    for (const last = this.#next + ROWS_MAX; this.large.length < wanted;) {
      if (this.#next === last) return target.fail(`none but ${this.large.length} of ${last} rows became large: the attack reached nothing`);
      const at = this.#next++;
      const writes = COLUMNS.map((_, column) => {
        return this.write(clients[column % clients.length]!, at, column);
      });
      await Promise.allSettled(writes);
      const stored = await replica.stored(keyOf(at));
      if (stored !== undefined && stored.length > LARGE_BYTES) this.large.push(at);
    }
  }
}

/** Bytes of the rows at each replica alone; what it lacks of what was acknowledged. */
async function judge(target: Target, replicas: readonly Replica[], papers: Papers, when: string): Promise<void> {
  const figures = { rows: 0, bytes: 0, missing: 0, different: 0 };
  for (const at of papers.rows) {
    const stored = await Promise.all(replicas.map((replica) => replica.stored(keyOf(at))));
    for (const bytes of stored) {
      figures.rows += 1;
      figures.bytes += bytes?.length ?? 0;
      if (bytes === undefined || !hasColumns(bytes, at, papers)) figures.missing += 1;
      else if (Buffer.compare(bytes, stored[0]!) !== 0) figures.different += 1;
    }
  }
  const { rows, bytes, missing, different } = figures;
  const text = `${when}: ${rows} rows of ${Math.round(bytes / MIB)} MiB compared, ${missing} missing, ${different} different`;
  target.note(text);
  if (missing + different > 0) target.fail(text);
}

function hasColumns(stored: Uint8Array, at: number, papers: Papers): boolean {
  const row = liveRow(decodeImage(imageOfStored(stored)));
  return [...papers.columnsOf(at)].every(([column, value]) => {
    const cell = row?.columns.get(COLUMNS[column]!);
    return cell?.kind === "blob" && Buffer.compare(cell.value, value) === 0;
  });
}

/** Bytes of the row, once all replicas have the same. */
async function agreed(target: Target, replicas: readonly Replica[], at: number): Promise<Uint8Array> {
  let stored: readonly (Uint8Array | undefined)[] = [];
  await settle(target, `row ${at}`, async () => {
    stored = await Promise.all(replicas.map((replica) => replica.stored(keyOf(at))));
    const same = stored.filter((bytes) => bytes !== undefined && Buffer.compare(bytes, stored[0]!) === 0).length;
    return same === stored.length ? undefined : `${same} of ${stored.length} replicas have the same`;
  });
  return stored[0]!;
}

/** A write that would make a row larger than the limit is refused, and no replica has another byte for it. */
async function passLimit(target: Target, db: ConcordClient, replicas: readonly Replica[], papers: Papers): Promise<void> {
  const legal = 2 * ROWS_MAX;
  for (const column of [0, 1]) await answered(target, `a write to row ${legal}`, () => papers.write(db, legal, column));
  for (const at of [legal, ...papers.large]) {
    const before = await agreed(target, replicas, at);
    const answer = await refusal(target, `a write to row ${at}`, () => db.update("papers", { shelf: SHELF, at, note: NOTE }));
    const after = await Promise.all(replicas.map((replica) => replica.stored(keyOf(at))));
    const same = after.filter((bytes) => bytes !== undefined && Buffer.compare(bytes, before) === 0).length;
    const text = `a write that makes a row of ${before.length} bytes larger: ${answer?.code}, applied ${answer?.applied}; ${same} of ${after.length} replicas as before`;
    target.note(text);
    if (answer?.code !== "LIMIT_EXCEEDED" || answer.applied !== "no" || same < after.length) target.fail(text);
  }
}

/** Positions of the rows of a listing through one node, page by page. */
async function listing(target: Target, db: ConcordClient): Promise<{ readonly rows: ReadonlySet<number>; readonly pages: number }> {
  const rows = new Set<number>();
  let pageToken: Uint8Array | undefined;
  for (let pages = 1; ; pages += 1) {
    const options = pageToken === undefined ? {} : { pageToken };
    const page = await answered(target, `page ${pages} of a listing`, () => db.query<{ at: number }>(LISTING, [SHELF], options));
    for (const { at } of page?.rows ?? []) rows.add(at);
    pageToken = page?.next;
    if (pageToken === undefined) return { rows, pages };
  }
}

/** Through a single node: a listing passes all rows, and a large one is refused whole, by its name, read by columns, and deleted. */
async function judgeReads(target: Target, db: ConcordClient, papers: Papers): Promise<void> {
  const { rows: listed, pages } = await listing(target, db);
  const unlisted = papers.rows.filter((at) => !listed.has(at));
  target.note(`${listed.size} rows listed in ${pages} pages, ${unlisted.length} not; ${papers.large.length} large ones read by columns`);
  if (unlisted.length > 0) target.fail(`${unlisted.length} of ${papers.rows.length} rows are not listed`);
  for (const at of papers.large) {
    const whole = await refusal(target, `SELECT * of row ${at}`, () => db.query(`SELECT * ${OF_ROW}`, [SHELF, at]));
    if (whole?.code !== "LIMIT_EXCEEDED" || whole.metadata?.["row"] !== `papers(${SHELF}; ${at})`)
      target.fail(`SELECT * of row ${at}: ${whole?.code} ${whole?.metadata?.["row"]}`);
    const [[column, written]] = [...papers.columnsOf(at)].slice(-1) as [[number, Buffer]];
    const name = COLUMNS[column]!;
    const read = (): Promise<Page> => db.query<Record<string, Uint8Array>>(`SELECT ${name} ${OF_ROW}`, [SHELF, at]);
    const value = (await answered(target, `${name} of row ${at}`, read))?.rows[0]?.[name];
    if (value === undefined || Buffer.compare(value, written) !== 0) target.fail(`${name} of row ${at} is not what was acknowledged`);
  }
  const key = { shelf: SHELF, at: papers.large[0]! };
  await answered(target, "a deletion", () => db.delete("papers", key));
  const deleted = await answered(target, "a read of a deleted row", () => db.read("papers", key));
  if (deleted !== undefined) target.fail(`row ${key.at} is there after its deletion`);
}

interface Page {
  readonly rows: readonly Readonly<Record<string, Uint8Array>>[];
}

interface Refusal {
  readonly code?: string;
  readonly applied?: string;
  readonly retryable?: boolean;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The answer to a request that may be sent again, as a program does that meets a busy node: it fails the attack when it is refused for the same reason for ever. */
async function answered<T>(target: Target, what: string, send: () => Promise<T>): Promise<T | undefined> {
  let answer: T | undefined;
  await settle(target, what, async () => {
    try {
      answer = await send();
      return undefined;
    } catch (thrown) {
      const { retryable, applied } = thrown as Refusal;
      if (retryable !== true && applied !== "unknown") throw thrown;
      return String(thrown);
    }
  });
  return answer;
}

/** The error of a request that must be refused for good; undefined: it was not. */
function refusal(target: Target, what: string, send: () => Promise<unknown>): Promise<Refusal | undefined> {
  return answered(target, what, () =>
    send().then(
      () => undefined,
      (thrown: Refusal) => {
        if (thrown.retryable === true) throw thrown as Error;
        return thrown;
      },
    ),
  );
}

/** Starts the node without its disk. It is ready, or its copy fails at the same row again and again, or stands. */
async function replace(target: Target, { name, adminAddress }: NodePlan): Promise<boolean> {
  const node = target.constellation.process(name);
  rmSync(target.dataFolder(name), { recursive: true });
  const failuresBefore = failuresOf(node.logFile).length;
  node.spawn();
  const seen = new Set<string>();
  let failures = 0;
  const isSettled = await settle(target, `the copy of ${name}`, async () => {
    const answer = await fetch(`http://${adminAddress}/readyz`, { headers: { connection: "close" } }).catch(() => undefined);
    if (answer?.ok === true) return undefined;
    seen.add((await answer?.text()) ?? "");
    failures = failuresOf(node.logFile).length - failuresBefore;
    return failures > COPY_FAILURES_MAX ? undefined : `${seen.size} steps, ${[...seen].at(-1)}`;
  });
  const isReady = isSettled && failures <= COPY_FAILURES_MAX;
  target.note(`${name} without its disk: ${isReady ? "ready" : "not ready"} after ${seen.size} steps and ${failures} failed copies`);
  if (failures > COPY_FAILURES_MAX) target.fail(`the copy failed ${failures} times: ${failuresOf(node.logFile).at(-1)}`);
  return isReady;
}

/** Lines of the log about copies that failed. */
const failuresOf = (logFile: string): readonly string[] =>
  readFileSync(logFile, "utf8")
    .split("\n")
    .filter((line) => line.includes(COPY_FAILED));

/** Some changes went as hints, others were left to a comparison. */
async function judgeHints(target: Target, { victim, survivors }: Ring): Promise<void> {
  const count = async (what: "delivered" | "dropped"): Promise<number> =>
    (await Promise.all(survivors.map((survivor) => hints(what, survivor, victim.name)))).reduce((sum, one) => sum + one, 0);
  const [delivered, dropped] = [await count("delivered"), await count("dropped")];
  target.note(`${delivered} hints delivered, ${dropped} dropped for the mark of a comparison`);
  if (delivered === 0 || dropped === 0) target.fail("none was delivered, or none was dropped: the attack reached nothing");
}

async function attack(target: Target): Promise<void> {
  const { nodes, tokens } = target.constellation;
  const ring = ringOf(target);
  const { victim } = ring;
  const replicas = nodes.map((node) => new Replica(node, tokens.peer));
  const clients = await connectEach(target, nodes, WRITE_MS);
  const papers = new Papers();
  try {
    await clients[0]!.createTables([TABLE]);
    await papers.grow(target, clients, replicas[0]!, LARGE_ROWS[0]);
    await target.serves("after rows of several MiB were written");
    await passLimit(target, clients[0]!, replicas, papers);
    await papers.rewrite(target, clients[0]!);
    for (const at of papers.rows) await agreed(target, replicas, at);
    await judge(target, replicas, papers, "written");

    await target.kill(victim.name);
    await papers.grow(target, clients.slice(0, -1), replicas[0]!, LARGE_ROWS[1]);
    // Hints are full: a comparison brings the difference to rows that are large at both nodes.
    for (const db of clients.slice(0, -1)) await papers.rewrite(target, db);
    await target.serves(`while ${victim.name} is dead`);
    await target.start({}, victim.name);
    await healed(target, ring);
    await judgeHints(target, ring);
    await judge(target, replicas, papers, "after hints and a comparison");

    await target.kill(victim.name);
    if (!(await replace(target, victim))) return;
    await healed(target, ring);
    await judge(target, replicas, papers, "after the disk was replaced");
    await target.serves("after the disk was replaced");
    await judgeReads(target, clients.at(-1)!, papers);
  } finally {
    for (const db of clients) db.close();
    for (const replica of replicas) replica.close();
  }
}

export const largeRow: Attack = {
  name: "large-row",
  symptom: "one row of 5 MiB kept a lost disk from being replaced for ever, and could not be read",
  isShort: true,
  members: { concord: 3 },
  config: { hintBytesMax: HINT_BYTES },
  // Rows of 6 MiB are written, merged, compared and copied as a whole.
  growthMiBMax: 512,
  run: attack,
};
