import { OUTCOME_BUCKET_MS, OUTCOMES_TABLE, type Mutation, type RowKey, type StorageBackend } from "@concord/ports";
import { ConcordError, epochOf, seqOf, timestampUsOf } from "@concord/runtime";
import { BATCHES_CASES } from "./batches-contract.ts";
import { expectCode, expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";
import { GROUP_LOG_CASES } from "./group-log-contract.ts";
import { ROW_STORE_CASES, SUPERSEDED_CASES } from "./row-store-contract.ts";

/** An empty backend that was opened and not started. Where several nodes hold the rows, a purge is one of all of them. */
export interface StorageBackendSubject {
  readonly backend: StorageBackend;
  /** Opens again what a backend that was stopped left; not started. */
  reopen(): Promise<StorageBackend>;
}

type Case = ContractCase<StorageBackendSubject>;

/** Of what must succeed: a real engine shares its machine with everything else. */
const OPTIONS = { timeoutMs: 60_000 };
const GROUP = "albums-0";

const never = (): AbortSignal => new AbortController().signal;

async function started(backend: StorageBackend): Promise<StorageBackend> {
  await backend.start(never());
  return backend;
}

/** The cases of a part, on the backend's own. */
function part<Subject>(
  name: string,
  cases: readonly ContractCase<Subject>[],
  of: (backend: StorageBackend, restart: () => Promise<StorageBackend>) => Subject,
): readonly Case[] {
  return cases.map((one) => ({
    name: `${name}: ${one.name}`,
    async run(open) {
      const subject = await open();
      let { backend } = subject;
      const restart = async (): Promise<StorageBackend> => {
        await backend.stop();
        backend = await started(await subject.reopen());
        return backend;
      };
      try {
        await one.run(async () => of(await started(backend), restart));
      } finally {
        await backend.stop();
      }
    },
  }));
}

/** Stops the backend in the end, whatever the case found. */
async function closing(open: () => Promise<StorageBackendSubject>, run: (subject: StorageBackendSubject) => Promise<void>): Promise<void> {
  const subject = await open();
  try {
    await run(subject);
  } finally {
    await subject.backend.stop();
  }
}

function simple(name: string, run: (backend: StorageBackend, subject: StorageBackendSubject) => Promise<void>): Case {
  return { name, run: (open) => closing(open, (subject) => run(subject.backend, subject)) };
}

const bytes = (value: number): Uint8Array => Uint8Array.of(value);
const rowKey: RowKey = { table: "notes", partition: [{ kind: "text", value: "ann" }], clustering: [] };
const rowOf = (key: RowKey): Mutation => ({ kind: "insert", key, columns: [], timestampUs: timestampUsOf(5n) });

/** Every call that must be refused while the backend does not serve. */
const calls = (backend: StorageBackend): readonly (() => Promise<unknown>)[] => [
  async () => backend.rows.read([rowKey], OPTIONS),
  async () => backend.groupLog.status(GROUP, OPTIONS.timeoutMs),
  async () => backend.batches.pending(1),
  async () => backend.purge(0),
];

async function expectRefused(backend: StorageBackend, code: string): Promise<void> {
  expectEqual(backend.ready, false, "ready");
  for (const [at, call] of calls(backend).entries()) await expectCode(call, code, `call ${at}`);
}

const LIFECYCLE_CASES: readonly Case[] = [
  simple("start: before it: not ready, calls get STARTING", async (backend) => expectRefused(backend, "STARTING")),
  simple("start: resolved: ready, calls are answered", async (backend) => {
    await backend.start(never());
    expectEqual(backend.ready, true, "ready");
    for (const call of calls(backend)) await call();
  }),
  simple("start: its signal is aborted: rejects with the reason, calls are still refused", async (backend) => {
    const stopping = new AbortController();
    stopping.abort(new ConcordError("CANCELLED", "stopped"));
    await expectCode(() => backend.start(stopping.signal), "CANCELLED", "start");
    expectEqual(backend.ready, false, "ready");
  }),
  simple("stop: not ready, calls get DRAINING; again: resolves", async (backend) => {
    await backend.start(never());
    await backend.stop();
    await expectRefused(backend, "DRAINING");
    await backend.stop();
  }),
  simple("stop: before start: resolves, calls get DRAINING", async (backend) => {
    await backend.stop();
    await expectRefused(backend, "DRAINING");
  }),
  simple("restart: rows, promises and entries of the group log are there", async (backend, { reopen }) => {
    await backend.start(never());
    await backend.rows.apply([rowOf(rowKey)], OPTIONS);
    await backend.groupLog.raise({ group: GROUP, epoch: epochOf(7n), owner: "a" }, OPTIONS.timeoutMs);
    const entry = {
      group: GROUP,
      epoch: epochOf(7n),
      owner: "a",
      seq: seqOf(1n),
      previousEpoch: epochOf(0n),
      timestampCeilingUs: timestampUsOf(9n),
      bytes: bytes(1),
      rows: new Uint8Array(),
      decided: { seq: seqOf(0n), epoch: epochOf(0n) },
    };
    expectEqual(await backend.groupLog.append(entry, OPTIONS.timeoutMs), { kind: "logged" }, "append");
    await backend.stop();
    const again = await started(await reopen());
    try {
      expectEqual((await again.rows.read([rowKey], OPTIONS))[0]?.markerUs, 5n, "row");
      const raised = await again.groupLog.raise({ group: GROUP, epoch: epochOf(8n), owner: "b" }, OPTIONS.timeoutMs);
      const tail = raised.kind === "raised" ? raised.tail.entries.map(({ seq, epoch }) => [seq, epoch]) : raised;
      expectEqual(tail, [[1n, 7n]], "tail");
    } finally {
      await again.stop();
    }
  }),
];

const MARK_CASES: readonly Case[] = [
  simple("write mark: 0 at first, kept over a restart", async (backend, { reopen }) => {
    await backend.start(never());
    if (backend.writeMark === undefined) return;
    expectEqual(await backend.writeMark.load(), 0n, "at first");
    await backend.writeMark.raise(timestampUsOf(7n));
    await backend.writeMark.raise(timestampUsOf(9n));
    await backend.stop();
    const again = await started(await reopen());
    try {
      expectEqual(await again.writeMark?.load(), 9n, "after a restart");
    } finally {
      await again.stop();
    }
  }),
];

const bucketKey = (group: string, bucket: number, at: number, table = OUTCOMES_TABLE): RowKey => ({
  table,
  partition: [
    { kind: "text", value: group },
    { kind: "bigint", value: BigInt(bucket) },
  ],
  clustering: [{ kind: "uuid", value: `00000000000070008000${String(at).padStart(12, "0")}` }],
});

const GROUPS = ["g1", "g10", "g2"];
const BUCKET = 30_000_000;
const bucketsOf = (buckets: readonly number[], table?: string): RowKey[] =>
  GROUPS.flatMap((group) => buckets.flatMap((bucket) => [1, 2].map((at) => bucketKey(group, bucket, at, table))));

/** The keys whose rows are there. */
async function present(backend: StorageBackend, keys: readonly RowKey[]): Promise<RowKey[]> {
  const images = await backend.rows.read(keys, OPTIONS);
  return keys.filter((_, at) => images[at] !== undefined);
}

function purges(name: string, run: (backend: StorageBackend) => Promise<void>): Case {
  return simple(name, async (backend) => run(await started(backend)));
}

const PURGE_CASES: readonly Case[] = [
  purges(
    "purge: outcomes of buckets that ended by then go, of every group; the bucket of that moment and younger ones stay",
    async (backend) => {
      const [old, young] = [bucketsOf([BUCKET - 2, BUCKET - 1]), bucketsOf([BUCKET, BUCKET + 1])];
      await backend.rows.apply([...old, ...young].map(rowOf), OPTIONS);
      const removed = await backend.purge(BUCKET * OUTCOME_BUCKET_MS);
      expectEqual(await present(backend, old), [], "old");
      expectEqual(await present(backend, young), young, "young");
      if (removed !== old.length && removed !== 0) throw new ConcordError("INTERNAL", `purge answers ${removed}, removed ${old.length}`);
    },
  ),
  purges("purge: one millisecond before a bucket ends: it stays", async (backend) => {
    const keys = bucketsOf([BUCKET]);
    await backend.rows.apply(keys.map(rowOf), OPTIONS);
    await backend.purge((BUCKET + 1) * OUTCOME_BUCKET_MS - 1);
    expectEqual(await present(backend, keys), keys, "rows");
  }),
  purges("purge: tables with names around the outcomes': stay", async (backend) => {
    const tables = [`${OUTCOMES_TABLE}_not`, OUTCOMES_TABLE.slice(0, -1), "a"];
    const keys = tables.flatMap((table) => bucketsOf([BUCKET - 1], table));
    await backend.rows.apply(keys.map(rowOf), OPTIONS);
    await backend.purge(BUCKET * OUTCOME_BUCKET_MS);
    expectEqual(await present(backend, keys), keys, "rows");
  }),
  purges("purge: again, and with nothing there: 0", async (backend) => {
    expectEqual(await backend.purge(BUCKET * OUTCOME_BUCKET_MS), 0, "empty");
    await backend.rows.apply(bucketsOf([BUCKET - 1]).map(rowOf), OPTIONS);
    await backend.purge(BUCKET * OUTCOME_BUCKET_MS);
    expectEqual(await backend.purge(BUCKET * OUTCOME_BUCKET_MS), 0, "again");
  }),
];

/** What every StorageBackend keeps: its own life, its purge, and the contracts of its parts. */
export const STORAGE_BACKEND_CASES: readonly Case[] = [
  ...LIFECYCLE_CASES,
  ...MARK_CASES,
  ...PURGE_CASES,
  ...part("rows", [...ROW_STORE_CASES, ...SUPERSEDED_CASES], (backend) => backend.rows),
  ...part("groupLog", GROUP_LOG_CASES, (backend, restart) => ({
    log: backend.groupLog,
    restart: async () => (await restart()).groupLog,
  })),
  ...part("batches", BATCHES_CASES, ({ batches, rows }) => ({ batches, rows })),
];

export function storageBackendContract(test: TestFunction, open: () => Promise<StorageBackendSubject>): void {
  registerContract(test, "StorageBackend", STORAGE_BACKEND_CASES, open);
}
