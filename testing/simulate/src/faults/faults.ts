import { ENCRYPTION_FAULTS } from "./encryption-faults.ts";
import { EVENT_FAULTS } from "./event-faults.ts";
import { FAILOVER_FAULTS } from "./failover-faults.ts";
import { LOCK_FAULTS } from "./lock-faults.ts";
import { MEMBERS_FAULTS } from "./members-faults.ts";
import { MESSAGE_FAULTS } from "./message-faults.ts";
import { OBJECT_FAULTS } from "./object-faults.ts";
import { OBJECT_LOCK_FAULTS } from "./object-lock-faults.ts";
import { OWNERSHIP_FAULTS } from "./ownership-faults.ts";
import { PLAIN_FAULTS } from "./plain-faults.ts";
import { REPAIR_FAULTS } from "./repair-faults.ts";
import { STORE_FAULTS } from "./store-faults.ts";
import { TRANSACTION_FAULTS } from "./transaction-faults.ts";
import type { SeededFault } from "./seeded-fault.ts";

const GROUP_STATE = "libs/group-log/src/group-state.ts";
const GROUP_COMMIT = "libs/transactions/src/group-commit.ts";
const DEDUP_WORKER = "libs/dedup/src/partition-worker.ts";
const RESTORE = "libs/dedup/src/restore-snapshot.ts";
const DEDUP_WINDOW = "libs/dedup/src/segmented-window.ts";
const EXECUTE_BATCH = "libs/logged-batch/src/execute-batch.ts";
const ROW_STORE = "libs/quorum/src/quorum-row-store.ts";

export const SEEDED_FAULTS: readonly SeededFault[] = [
  ...ENCRYPTION_FAULTS,
  ...EVENT_FAULTS,
  ...FAILOVER_FAULTS,
  ...LOCK_FAULTS,
  ...MEMBERS_FAULTS,
  ...MESSAGE_FAULTS,
  ...OBJECT_FAULTS,
  ...OBJECT_LOCK_FAULTS,
  ...OWNERSHIP_FAULTS,
  ...PLAIN_FAULTS,
  ...STORE_FAULTS,
  ...REPAIR_FAULTS,
  ...TRANSACTION_FAULTS,
  {
    name: "old-epoch-append",
    about: "A replica of the group log takes entries of an epoch older than the promised one (TXD1, TXR2).",
    scenario: "log",
    edits: [
      {
        file: "libs/group-log/src/group-state.ts",
        search: 'if (!isPromised(before, request.epoch, request.owner)) return { kind: "fenced" };',
        replace: 'if (request.epoch > before.promisedEpoch) return { kind: "fenced" };',
      },
    ],
  },
  {
    name: "acknowledged-before-logged",
    about: "The master acknowledges a commit when it sends the append, not when two replicas have it (TX27).",
    scenario: "txn",
    edits: [
      {
        file: GROUP_COMMIT,
        search: "const outcome = await appendOnce(groupLog.append(flush.request, settings.storageTimeoutMs, flush.spans[0]));",
        replace:
          'void appendOnce(groupLog.append(flush.request, settings.storageTimeoutMs, flush.spans[0]));\n      const outcome = await Promise.resolve<AppendDecision>({ kind: "logged" });',
      },
    ],
  },
  {
    name: "local-read-before-catch-up",
    about: "A master reads rows at the replica of its own process, however far behind that one is (TXD14).",
    scenario: "txn",
    edits: [
      {
        file: "libs/transactions/src/committed-rows.ts",
        search: 'if (local === undefined || local.appliedSeq(group) < this.#appliedSeq) return "ask";',
        replace: 'if (local === undefined || group === "") return "ask";',
      },
    ],
  },
  {
    name: "raised-by-one",
    about: "A takeover is content with one replica's promise and tail (TXR3).",
    scenario: "txn",
    edits: [
      {
        file: "libs/group-log/src/ring-group-log.ts",
        search: 'if (promises.length >= this.#majority) return { kind: "promised", promises, replies };',
        replace: 'if (promises.length >= 1) return { kind: "promised", promises, replies };',
      },
    ],
  },
  {
    name: "applied-above-decided",
    about: "A replica applies every entry it holds, whatever the mark says (TXD14).",
    scenario: "log",
    edits: [
      { file: GROUP_STATE, search: "let reached = seq < lastSeq(state) ? seq : lastSeq(state);", replace: "let reached = lastSeq(state);" },
      {
        file: GROUP_STATE,
        search: "while (reached > state.appliedSeq && entryAt(state, reached)!.epoch < epoch)",
        replace: "while (epoch < 0n)",
      },
    ],
  },
  {
    name: "mark-on-older-tail",
    about: "A mark of a newer epoch decides entries that were accepted under an older one (TXD14).",
    scenario: "log",
    edits: [
      {
        file: GROUP_STATE,
        search: "while (reached > state.appliedSeq && entryAt(state, reached)!.epoch < epoch)",
        replace: "while (epoch < 0n)",
      },
    ],
  },
  {
    name: "asked-for-is-decided",
    about: "A replica that is to catch up with a number takes what it holds for decided (TX30, TXD14).",
    scenario: "log",
    edits: [
      {
        file: "libs/group-log/src/catch-up.ts",
        search: "peers.length === 0 ? log.settleAlone(group) : log.state(group)",
        replace: "log.settleAlone(group)",
      },
    ],
  },
  {
    name: "own-vote-counted-twice",
    about: "One replica's acceptance counts as a majority (TX27, TXR2).",
    scenario: "log",
    edits: [
      {
        file: "libs/group-log/src/ring-group-log.ts",
        search: 'if (accepted >= this.#majority) return { kind: "logged" };',
        replace: 'if (2 * accepted >= this.#majority) return { kind: "logged" };',
      },
    ],
  },
  {
    name: "previous-epoch-ignored",
    about: "A replica accepts an entry on top of any entry before, of whatever history (TXR2, I4 of the group-log README).",
    scenario: "log",
    edits: [
      {
        file: GROUP_STATE,
        search: "return entryAt(state, seqOf(firstSeq - 1n))?.epoch === previousEpoch;",
        replace: "return entryAt(state, seqOf(firstSeq - 1n)) !== undefined || previousEpoch < 0n;",
      },
    ],
  },
  {
    name: "dropped-before-checkpoint",
    about: "A log entry goes before a checkpoint holds the rows that follow from it (I9 of the group-log README).",
    scenario: "log",
    edits: [
      {
        file: "libs/group-log/src/replica-steps.ts",
        search: "const checkpointed = this.#checkpointed.get(group) ?? kept.droppedSeq;",
        replace: "const checkpointed = seqOf(kept.droppedSeq + BigInt(kept.count));",
      },
    ],
  },
  {
    name: "votes-after-a-cut",
    about:
      "A replica whose disk lost what it synced last promises, accepts and votes at once, not when it has caught up from both peers (TXR2).",
    scenario: "losses",
    edits: [
      {
        file: "apps/storage-proxy/src/ring/ring-backend.ts",
        search: 'const mayLack = store.cutTail && joined === "formed"',
        replace: 'const mayLack = store.cutTail && joined === "lagging"',
      },
    ],
  },
  {
    name: "restored-from-one-peer",
    about: "A replica whose disk was lost copies rows and logs of one peer, which may have missed what this one acknowledged (TXR4).",
    scenario: "losses",
    edits: [
      {
        file: "apps/storage-proxy/src/ring/formation/form-ring.ts",
        search: "await copyStore({ ...options, ...own });",
        replace: "await copyStore({ ...options, peers: options.peers.slice(0, 1), ...own });",
      },
    ],
  },
  {
    name: "lost-store-taken-for-new",
    about: "A replica whose disk was lost joins as a new one, although its peers know it (TXR4, I2 of the storage-proxy README).",
    scenario: "losses",
    edits: [
      {
        file: "apps/storage-proxy/src/ring/formation/form-ring.ts",
        search: "if (hellos.some((hello) => hello.knowsCaller)) {",
        replace: "if (hellos.length === 0) {",
      },
    ],
  },
  {
    name: "rows-not-derived-again",
    about: "After a restart a replica answers before it has derived the rows of the entries it keeps (I9 of the group-log README).",
    scenario: "log",
    edits: [
      {
        file: "libs/group-log/src/open-replica.ts",
        search: "if (rows.length > 0) await runner.submit(",
        replace: "if (rows.length < 0) await runner.submit(",
      },
    ],
  },
  {
    name: "row-repair-on-groups",
    about:
      "Read repair also sends rows of groups' tables, besides having the replica catch up, and they may arrive late: one that was deleted and forgotten meanwhile is back (TX30, TXD14).",
    scenario: "album",
    edits: [
      {
        file: ROW_STORE,
        search: "      ...chunksOf(mutations).map(async (chunk) => {\n",
        replace:
          "      ...rows.flatMap((row) => (row.place === undefined || row.image === undefined ? [] : [this.#merged(replica, row.image)])),\n" +
          "      ...chunksOf(mutations).map(async (chunk) => {\n",
      },
      {
        file: ROW_STORE,
        search: "  #merge(answers: readonly Uint8Array[]): MergedRow {\n",
        replace:
          '  async #merged(replica: RowReplica, image: NonNullable<MergedRow["image"]>): Promise<void> {\n' +
          "    this.#clock.setTimer(3000, () => void replica.applyRows(encodedMutationsOf(image), 1000).catch(() => undefined));\n" +
          "  }\n\n" +
          "  #merge(answers: readonly Uint8Array[]): MergedRow {\n",
      },
    ],
  },
  {
    name: "timestamps-forget-history",
    about: "After a takeover timestamps start from the clock alone (TXD4, TX7).",
    scenario: "txn",
    edits: [
      {
        file: "libs/transactions/src/timestamps.ts",
        search: "this.#last = ceilingUs;",
        replace: "this.#last = (ceilingUs - ceilingUs) as TimestampUs;",
      },
      {
        file: "libs/transactions/src/timestamps.ts",
        search: "if (newestReadUs + 2n > drawnUs) drawnUs = newestReadUs + 2n;",
        replace: "if (newestReadUs < 0n) drawnUs = newestReadUs;",
      },
    ],
  },
  {
    name: "quorum-of-one",
    about: "Reads and writes of rows are content with one replica (TX11, TX30).",
    scenario: "txn",
    edits: [
      { file: ROW_STORE, search: "Math.floor(options.replicas.length / 2) + 1", replace: "Math.floor(options.replicas.length / 4) + 1" },
    ],
  },
  {
    name: "index-row-left-behind",
    about: "A change of an indexed column leaves the row of the old index key (TX21).",
    scenario: "album",
    edits: [
      {
        file: "libs/schema/src/index-mutations.ts",
        search: '  if (oldKey !== undefined) mutations.push({ kind: "delete", key: oldKey, timestampUs });\n',
        replace: "",
      },
    ],
  },
  {
    name: "deleted-row-keeps-its-index-rows",
    about: "Deleting a row leaves its index rows (TX21).",
    scenario: "album",
    edits: [
      {
        file: "libs/schema/src/index-mutations.ts",
        search: "  if (oldKey !== undefined) mutations.push(",
        replace: "  if (oldKey !== undefined && newKey !== undefined) mutations.push(",
      },
    ],
  },
  {
    name: "atomic-read-behind-the-log",
    about: "An atomic read does not ask which entry is the newest: a replica that is behind answers (TXD5).",
    scenario: "album",
    edits: [
      {
        file: "libs/quorum/src/atomic-row-store.ts",
        search: "let seq = await this.#options.newestSeq(group, options.timeoutMs);",
        replace: "let seq = 0n as Seq;",
      },
    ],
  },
  {
    name: "atomic-read-of-two-states",
    about: "A replica reads the rows of an atomic read one by one: entries are applied in between (TXD5).",
    scenario: "album",
    edits: [
      {
        file: "libs/quorum/src/local-replica.ts",
        search: "const { stored, at } = await runner.submit(read);",
        replace:
          "const stored = []; for (const key of load) stored.push((await this.#options.reader.getMany([key]))[0]); const { at } = await runner.submit(read);",
      },
    ],
  },
  {
    name: "expired-work-is-done",
    about: "A commit that waited for the log until no call waited for it is appended all the same (TX6).",
    scenario: "txn",
    edits: [{ file: "libs/transactions/src/group-commit.ts", search: "    this.#dropUnwanted(nowMs);\n", replace: "" }],
  },
  {
    name: "decided-before-two-holders",
    about: "A batch is acknowledged and decided when one node has it on disk (LB3, LBD15).",
    scenario: "batch",
    edits: [
      {
        file: EXECUTE_BATCH,
        search: "timeoutMs: patienceMs, needed: quorumOf(ring)",
        replace: "timeoutMs: patienceMs, needed: 1",
      },
      { file: EXECUTE_BATCH, search: "assert(confirmed.length >= quorumOf(ring),", replace: "assert(confirmed.length >= 1," },
    ],
  },
  {
    name: "restart-forgets-held-batches",
    about: "A restarted node answers reads of rows that a batch in its log writes, although it has not merged them (LBD15).",
    scenario: "batch",
    edits: [
      {
        file: "libs/logged-batch/src/batch-log.ts",
        search: "      this.#add({ ...summary, receivedAtMs: undefined });",
        replace: "      this.#add({ ...summary, receivedAtMs: undefined });\n      this.#decide(this.#pending.get(id)!, false);",
      },
    ],
  },
  {
    name: "batchlog-removed-when-decided",
    about: "The holders forget a batch together with its decision, before every replica has its rows on disk (LBD1).",
    scenario: "batch",
    edits: [
      {
        file: EXECUTE_BATCH,
        search: "() => laneOf(node).decide(batch.id, log.entryBytes),",
        replace: "() => {\n        laneOf(node).remove(batch.id);\n        return true;\n      },",
      },
    ],
  },
  {
    name: "other-writes-answered-as-committed",
    about: "A repeated commit with other writes, while the first is on its way, gets the answer of the first (TXD7).",
    scenario: "histories",
    edits: [
      {
        file: "libs/transactions/src/serving-master.ts",
        search: "    requireSamePayload(transaction.state.digest, payload, this.#context.checksum);\n    return this.#decisionOf",
        replace: "    if (payload.digest === 0n) throw unknownTransaction();\n    return this.#decisionOf",
      },
    ],
  },
  {
    name: "dead-letter-lost",
    about: "An expired entry leaves the log and is no dead letter on the disk (I4 of the logged-batch README, LBD6).",
    scenario: "histories",
    edits: [
      {
        file: "libs/logged-batch/src/batch-log.ts",
        search: "persist: [remove(entryKey(id)), put(letterKey(id), letter)], reply: true",
        replace:
          "persist: [remove(entryKey(id)), remove(letterKey(id)), ...(letter.length === 0 ? [put(letterKey(id), letter)] : [])], reply: true",
      },
    ],
  },
  {
    name: "replay-trusts-silence",
    about: "Replay counts a replica as having a batch although its write failed (LB8, LBD1).",
    scenario: "batch",
    edits: [
      {
        file: "libs/logged-batch/src/replay.ts",
        search: 'if (nodes.some((node) => !isSafe(pending, node.name))) return "kept";',
        replace: "",
      },
    ],
  },
  {
    name: "window-before-output",
    about: "Ids are stored before their messages are published, as the source does it (DDD1): a crash in between loses them.",
    scenario: "dedup",
    edits: [
      {
        file: DEDUP_WORKER,
        search: "    const outcome = await session.publish(classified.publication);",
        replace:
          "    await window.apply(publishedIds(classified, window.appliedOutput!));\n    const outcome = await session.publish(classified.publication);",
      },
      { file: DEDUP_WORKER, search: "    await window.apply(published);\n", replace: "" },
    ],
  },
  {
    name: "offset-before-ids",
    about: "The window's next output offset is written before the ids, not with them (DDD2).",
    scenario: "dedup",
    edits: [
      {
        file: DEDUP_WINDOW,
        search: "    await this.#store.batch(operations, { sync: false });\n",
        replace:
          '    const heads = entries.map((entry) => ({ ...entry, ids: new Uint32Array() }));\n    const puts = heads.map((head) => ({ kind: "put" as const, key: journalKey(head.from), value: encodeJournalEntry(head, checksum) }));\n    await this.#store.batch(puts, { sync: false });\n    failpoint("dedup:journaled");\n    await this.#store.batch(operations, { sync: false });\n',
      },
    ],
  },
  {
    name: "acknowledged-before-published",
    about: "The input is acknowledged before its messages are in the output (DD10).",
    scenario: "dedup",
    edits: [
      {
        file: DEDUP_WORKER,
        search: "    const outcome = await session.publish(classified.publication);",
        replace:
          "    await session.publish({ ...classified.publication, output: [] });\n    const outcome = await session.publish(classified.publication);",
      },
    ],
  },
  {
    name: "filter-decides",
    about: "A filter's hit counts as a duplicate, no stored id is looked at (DD13).",
    scenario: "dedup",
    edits: [
      {
        file: DEDUP_WINDOW,
        search: "for (const at of await segment.lookUp(ids, positions)) found[at / ID_WORDS] = 1;",
        replace: "await segment.lookUp(ids, positions);\n        for (const at of positions) found[at / ID_WORDS] = 1;",
      },
    ],
  },
  {
    name: "newest-run-dropped",
    about: "Ageing drops the segment before the newest instead of the oldest (DD7).",
    scenario: "dedup",
    edits: [
      {
        file: DEDUP_WINDOW,
        search: "segments: segments.slice(excess), segmentsTo: to",
        replace: "segments: excess === 0 ? segments : [...segments.slice(0, -1 - excess), segments.at(-1)!], segmentsTo: to",
      },
    ],
  },
  {
    name: "run-listed-before-synced",
    about: "A segment is in the manifest before it is on disk (DD10): a power cut leaves a listed run without its ids.",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/segment.ts",
        search: "  await store.batch([header], { sync: true });",
        replace: "  await store.batch([header], { sync: false });",
      },
      // Opening it again would sync it.
      {
        file: DEDUP_WINDOW,
        search: "      await store.close();\n    }\n    // A store that is opened again",
        replace: "      await Promise.resolve();\n    }\n    // A store that is opened again",
      },
      {
        file: DEDUP_WINDOW,
        search: "new Segment(description, await this.#stores.open(description.store), index, checksum)",
        replace: "new Segment(description, store, index, checksum)",
      },
    ],
  },
  {
    name: "page-before-forgotten",
    about: "A page is not compared with the one that is published while it is looked up (DDD7).",
    scenario: "dedup",
    edits: [{ file: "libs/dedup/src/classify-page.ts", search: "before?.has(page.words, at) === true || ", replace: "" }],
  },
  {
    name: "topped-up-not-looked-up",
    about: "Messages that are added to a page that was looked up ahead are not looked up: ids of earlier pages pass again (DDD7).",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/read-page.ts",
        search: "  const known = await window.lookUp(words);\n",
        replace: "  const known = new Uint8Array(messages.length);\n",
      },
    ],
  },
  {
    name: "journal-record-of-one-page",
    about: "A record of the window's journal for several pages has the ids of the last alone, and the offset to go on from of all (DDD2).",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/window-format.ts",
        search: "  if (first === last) return first;\n",
        replace: "  if (first === last || first.from < last.from) return { ...last, from: first.from };\n",
      },
    ],
  },
  {
    name: "source-left-out",
    about: "Ids of all sources are compared with each other: a producer suppresses another's message by sending its id first (DDD13).",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/source-masks.ts",
        search: "if (source === undefined || source.length === 0) return;",
        replace: "if (source === undefined || source.length >= 0) return;",
      },
    ],
  },
  {
    name: "snapshot-without-scan",
    about: "A restored window takes the output's end for its outNext: what was published after the snapshot is not read (DD11).",
    scenario: "dedup",
    edits: [{ file: RESTORE, search: "segmentsTo: outNext, nextStore", replace: "segmentsTo: source.output.end, nextStore" }],
  },
  {
    name: "snapshot-of-an-older-owner",
    about: "The newest snapshot's outNext goes with the segments of the oldest: the window has moved on since (DD18).",
    scenario: "dedup",
    edits: [
      {
        file: RESTORE,
        search: "  return snapshot;\n",
        replace:
          "  const oldest = snapshotNames(await snapshots.store.list(signal)).at(-1)!;\n  const older = await snapshots.store.get(oldest.name, SNAPSHOT_MANIFEST_BYTES_MAX, signal);\n  return older === undefined ? snapshot : { ...decodeSnapshot(older, environment.checksum), outNext };\n",
      },
    ],
  },
  {
    name: "output-not-read-again",
    about: "After a crash the window is not brought up to the output (DD9).",
    scenario: "dedup",
    edits: [
      {
        file: "libs/dedup/src/rebuild-window.ts",
        search: "outputPages(source, from, output.end)",
        replace: "outputPages(source, from, from)",
      },
    ],
  },
  {
    name: "large-commit-never-leaves",
    about: "A large commit that ended is still counted as on its way: after a while every large commit is refused.",
    scenario: "txn",
    edits: [{ file: "libs/transactions/src/large-commits.ts", search: "        this.#bytes -= bytes;\n", replace: "" }],
  },
];
