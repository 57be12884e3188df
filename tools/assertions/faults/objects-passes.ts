// Assertions of passes over rows and blobs, and of what is beside an operation's own file.
import type { AssertionFault } from "./assertion-fault.ts";

type Seed = readonly [message: string, file: string, search: string, replace: string, test: string];

const PAGES = "a page begins behind the one before it";
const ANSWERED = "a read answers for each key";

const SEEDS: readonly Seed[] = [
  // Epochs and names.
  [
    "OGD7: the low-water mark is not above a name that was never taken",
    "reservation/names",
    "    this.#next = sequence + 1;\n",
    "    this.#next = sequence;\n",
    "reservation/reservation",
  ],
  [
    "OGD3: names are taken from an epoch that is open",
    "reservation/epoch-row",
    "reservedTo, lowWater: 0, closed: false };",
    "reservedTo, lowWater: 0, closed: true };",
    "reservation/reservation",
  ],
  [
    "no upload waits for a name of an epoch that ended",
    "reservation/gateway-epoch",
    "    for (const taker of this.#takers) this.#refuse(taker, cause);\n",
    "",
    "reservation/reservation",
  ],
  [
    "a block is in the epoch's row before it is in the journal",
    "reservation/gateway-epoch",
    "return { ...row, reservedTo: from + this.#blockNames, lowWater",
    "return { ...row, lowWater",
    "reservation/reservation",
  ],
  [
    "the row of an epoch says that its gateway lives as long as it is open",
    "reservation/gateway-epoch",
    '          if (this.#state === "open") this.#scheduleHeartbeat();\n',
    "          this.#scheduleHeartbeat();\n",
    "reservation/reservation",
  ],
  [
    "OGD3: the row of an epoch is at its number",
    "reservation/epoch-row",
    "  const key = epochKey(row.epoch);\n",
    "  const key = epochKey(row.epoch + 1);\n",
    "reservation/reservation",
  ],
  [
    "a row is written under a higher number than was seen",
    "reservation/epoch-row",
    "  const floor = (observed?.version.commit ?? 0n) + 1n;\n",
    "  const floor = 1n;\n",
    "reservation/reservation",
  ],
  [
    PAGES,
    "reservation/epoch-row",
    "    if (page.length < EPOCH_PAGE) return all;\n    after = assertForward(after, epochKey(all.at(-1)!.row.epoch + 1));",
    "    if (page.length === 0) return all;\n    after = assertForward(after, epochKey(0));",
    "recovery/recovery",
  ],
  // Recovery.
  [
    "an epoch is closed in its row before the data store closes it",
    "recovery/recover-epoch",
    "while (held !== undefined && !held.row.closed) {",
    "while (held !== undefined && held.row.epoch < 0) {",
    "recovery/recovery",
  ],
  [
    "OGD6: each blob of a page is looked at once",
    "recovery/recover-epoch",
    "  const waiting = [...oids];\n",
    "  const waiting = [...oids, ...oids];\n",
    "recovery/recovery",
  ],
  [
    "OGD6: a page of names begins behind the one before it",
    "recovery/recover-epoch",
    "    if (oids.length < RECOVERY_PAGE_BLOBS) break;\n    const next = parseOid(oids.at(-1)!).sequence + 1;\n",
    "    if (oids.length === 0) break;\n    const next = from;\n",
    "recovery/recovery",
  ],
  [
    "OGD6: an epoch is recovered once all its blobs are decided",
    "recovery/recover-epoch",
    "counts.undecided === 0 && (await markRecovered",
    "(await markRecovered",
    "recovery/recovery",
  ],
  [ANSWERED, "recovery/decide-blobs", "[headerKey(), ...keys]);", "[headerKey(), ...keys.slice(1)]);", "recovery/recovery"],
  [
    "OGD6: a commit that marks garbage decides each blob that was looked at",
    "recovery/decide-blobs",
    '  for (const { oid } of orphans) fates.set(oid, "collected");\n',
    "",
    "recovery/recovery",
  ],
  [
    "OGD6: each blob that nothing names is in one GC entry",
    "recovery/decide-blobs",
    "byKey.get(name) ?? { bucket, key, oids: [] };",
    "{ bucket, key, oids: [] as Oid[] };",
    "recovery/recovery",
  ],
  [
    PAGES,
    "recovery/decide-blobs",
    "      if (page.length < GARBAGE_SCAN_PAGE) return oids;\n      from = assertForward(from, afterKey(page.at(-1)!.key));",
    "      if (page.length === 0) return oids;\n      from = assertForward(from, from);",
    "recovery/recovery",
  ],
  [
    PAGES,
    "recovery/older-versions",
    "    if (page.length < VERSION_SCAN_PAGE) return found;\n    from = assertForward(from, afterKey(page.at(-1)!.key));",
    "    if (page.length === 0) return found;\n    from = assertForward(from, from);",
    "recovery/older-versions",
  ],
  [
    "OGD3: rows of the newest epochs stay, so that numbers go on from them",
    "recovery/recovery",
    "      .slice(0, -RECOVERED_EPOCHS_KEPT)\n",
    "",
    "recovery/recovery",
  ],
  [
    "a commit is decided once",
    "recovery/unresolved-commits",
    "      if (await commit.attempt()) {\n",
    "      if (await commit.attempt()) {\n        this.#commits.delete(commit);\n",
    "recovery/recovery",
  ],
  // Collection.
  [
    "a blob of an entry is removed or kept, and once",
    "garbage/collect-row",
    "      removed.blobs += 1;\n      removed.bytes += state.kind",
    "      removed.blobs += 2;\n      removed.bytes += state.kind",
    "garbage/garbage",
  ],
  [
    "OGD11: with an upload that is garbage its own parts go",
    "garbage/collect-row",
    "{ ...partSpan(key, uploadId), limit: PARTS",
    "{ from: partSpan(key, 0n).from, to: partSpan(key, 2n ** 63n).to, limit: PARTS",
    "garbage/garbage",
  ],
  [
    PAGES,
    "garbage/collect-row",
    "    if (page.length < PARTS_PER_COMMIT_MAX) return parts;\n    from = assertForward(from, afterKey(page.at(-1)!.key));",
    "    if (page.length === 0) return parts;\n    from = assertForward(from, from);",
    "garbage/garbage",
  ],
  [
    PAGES,
    "garbage/garbage-collector",
    "      if (page.length < GARBAGE_BATCH_ROWS) return;\n      from = assertForward(from, afterKey(page.at(-1)!.key));",
    "      if (page.length === 0) return;\n      from = assertForward(from, from);",
    "garbage/garbage",
  ],
  [
    PAGES,
    "garbage/garbage-collector",
    "        if (page.length < COUNT_PAGE_ROWS) break;\n        from = assertForward(from, afterKey(page.at(-1)!.key));",
    "        if (page.length === 0) break;\n        from = assertForward(from, from);",
    "garbage/garbage",
  ],
  [
    "a shared read has a bounded number of keys",
    "garbage/gathered-reads",
    "at < asked.length && keys + asked[at]!.keys.length <= GATHERED_KEYS_MAX; at",
    "at < asked.length; at",
    "garbage/gathered-reads",
  ],
  // Journal modes.
  [
    "OGD3: an epoch is left once another gateway closed it",
    "journal-modes/epoch-keeper",
    'this.#current.state === "fenced" ? await',
    'this.#current.state !== "fenced" ? await',
    "journal-modes/journal-modes",
  ],
  [
    "OG10: a checkpoint is behind the one before it",
    "journal-modes/open-upload-journal",
    "const sequence = await this.#journal.checkpoint(() => this.snapshot());",
    "const sequence = (await this.#journal.checkpoint(() => this.snapshot())) * 0n;",
    "journal-modes/journal-modes",
  ],
  [
    "OGD7: a checkpoint has the bytes that were counted for it",
    "journal-modes/unresolved",
    "    this.#bytes += encoded.length;\n",
    "    this.#bytes += 0;\n",
    "journal-modes/journal-modes",
  ],
  [
    "OGD6: a block that is recorded has names",
    "reservation/gateway-epoch",
    "options.names.record(held.row.epoch, { from: 0, to: blockNames });",
    "options.names.record(held.row.epoch, { from: 0, to: 0 });",
    "journal-modes/journal-modes",
  ],
  [
    "OGD7: a checkpoint has the bytes of what it lists",
    "journal-modes/unresolved",
    "this.#deletes.set(record.guid, { record, bytes: encoded.length });",
    "this.#deletes.set(record.guid, { record, bytes: encoded.length - 1 });",
    "journal-modes/journal-modes",
  ],
  [
    "a commit that puts a head, an upload or a part names its header",
    "journal-modes/recover-transactions",
    "        { key: headerKey(), version: header.version },\n",
    "",
    "journal-modes/journal-modes",
  ],
  [
    "OG11: a delete is redone on exactly the row of its record",
    "journal-modes/recover-transactions",
    "|| head === undefined || !sameVersion(head.version, version)) return",
    "|| head === undefined) return",
    "journal-modes/journal-modes",
  ],
  [
    "a row is written under a higher number than was seen",
    "delete-object",
    "await promote(context, view, number)",
    "await promote(context, view, { ...number, commit: 1n })",
    "journal-modes/journal-modes",
  ],
];

export const OBJECTS_PASSES_FAULTS: readonly AssertionFault[] = SEEDS.map(([message, file, search, replace, test]) => ({
  message,
  file: `libs/objects/src/${file}.ts`,
  search,
  replace,
  test: `libs/objects/src/${test}.test.ts`,
}));
