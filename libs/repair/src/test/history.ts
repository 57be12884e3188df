// Random histories of three replicas: writes that some miss, crashes, hints, comparisons, damage, calls that take effect late, time that passes
// gc_grace, tombstones that are collected.
import { liveRow, decodeImage } from "@concord/rows";
import { openRow, storedRowKey } from "@concord/quorum";
import { encodeRowKey } from "@concord/rows";
import { assert, timestampUsOf, toHex } from "@concord/runtime";
import { dice } from "@concord/port-contracts";
import { checksum, rowKey } from "./fixture.ts";
import { TestRing, type Link, type Node } from "./ring.ts";

const ROWS = 6;
const STEPS = 30;
const GC_GRACE_MS = 60_000;
const LINKS: readonly Link[] = ["up", "down", "lossy", "mute", "late"];

/** One write as the client saw it. */
interface Written {
  readonly row: string;
  readonly kind: "insert" | "delete";
  readonly timestampUs: bigint;
  readonly value: string;
  isAcknowledged: boolean;
}

export interface RepairHistory {
  readonly writes: number;
  readonly acknowledged: number;
  readonly purged: number;
}

/**
 * `hints`: every failed call is hinted and no hint is dropped, so hints alone make the replicas equal. `repair`: hints are few, nodes die at any
 * moment, rows are damaged, and tombstones are collected after gc_grace. What a forgotten deletion had deleted is nowhere from then on. Throws at the
 * first wrong state.
 */
export async function runRepairHistory(seed: number): Promise<RepairHistory> {
  const below = dice(seed);
  const mode = below(2) === 0 ? "hints" : "repair";
  const ring = await TestRing.open({
    segmentRows: 1 + below(4),
    ...(mode === "repair" ? { hintBytesMax: below(3) * 300, gcGraceMs: GC_GRACE_MS } : {}),
  });
  const history = new History(ring, below);
  for (let step = 0; step < STEPS; step += 1) await (mode === "hints" ? history.stepOfHints() : history.stepOfRepair());
  await history.end(mode);
  history.check();
  return {
    writes: history.written.length,
    acknowledged: history.written.filter((one) => one.isAcknowledged).length,
    purged: history.purged,
  };
}

class History {
  readonly written: Written[] = [];
  purged = 0;
  readonly #ring: TestRing;
  readonly #below: (limit: number) => number;
  #lastUs = 1_700_000_000_000_000n;
  /** By stored key: the newest deletion that was forgotten. */
  readonly #forgottenUs = new Map<string, bigint>();
  /** Copies that are damaged in the step that goes on: a deletion that no other replica has may go with one. */
  readonly #damaged = new Set<string>();
  /** By row: the newest write that a read has shown. */
  readonly #shown = new Map<string, Written>();

  constructor(ring: TestRing, below: (limit: number) => number) {
    this.#ring = ring;
    this.#below = below;
  }

  /** Nodes die only when nothing is on its way: a write that no hint stands for yet is what anti-entropy is for. */
  async stepOfHints(): Promise<void> {
    const node = this.#node();
    switch (this.#below(5)) {
      case 0:
        return this.#changeLink();
      case 1:
        this.#ring.crash(node);
        return;
      case 2:
        return this.#ring.start(node);
      case 3:
        return this.#ring.deliverHints(node);
      default:
        return this.#write(node);
    }
  }

  async stepOfRepair(): Promise<void> {
    await this.#noting(() => this.#act());
    for (let row = 0; row < ROWS; row += 1) this.#checkMajority(`r${row}`);
  }

  async #act(): Promise<void> {
    const [ring, node] = [this.#ring, this.#node()];
    switch (this.#below(16)) {
      case 0:
        return this.#changeLink();
      case 10:
        return this.#withLinks(() => this.#repairLate(node));
      case 11:
        return ring.release(this.#below(Math.max(1, ring.late.length)));
      case 12:
        return this.#collectNow(node);
      case 13:
        return this.#forget();
      case 1:
        return ring.start(node);
      case 7:
        return this.#read(node, `r${this.#below(ROWS)}`);
      case 8:
        return this.#withLinks(() => this.#readTwice(node));
      case 9:
        return this.#withLinks(() => this.#healWhatOneMissed(node));
      case 2:
        return this.#crashInWrite(node);
      case 3:
        return ring.deliverHints(node);
      case 4:
        return this.#compareSome(node);
      case 5:
        return this.#damage(node, `r${this.#below(ROWS)}`);
      case 6:
        return this.#forget();
      default:
        return this.#write(node);
    }
  }

  async end(mode: "hints" | "repair"): Promise<void> {
    const ring = this.#ring;
    ring.links.clear();
    for (const node of ring.nodes) await ring.start(node);
    await this.#noting(async () => {
      while (ring.late.length > 0) await ring.release(this.#below(ring.late.length));
    });
    for (const node of ring.nodes) await ring.deliverHints(node);
    if (mode === "hints") return;
    // Twice: what the last pair brought to one side goes on to the third, and rows that were healed are compared.
    for (let round = 0; round < 3; round += 1) await ring.compareAll();
    await ring.clock.pass(5000);
    await ring.compareAll();
  }

  check(): void {
    const [first, ...others] = this.#ring.nodes.map((node) => this.#ring.stored(node));
    const text = (rows: ReadonlyMap<string, Uint8Array>): string => [...rows].map(([key, value]) => `${key}=${toHex(value)}`).join("\n");
    for (const other of others) assert(text(other) === text(first!), "replicas are equal without a read");
    this.#checkForgotten();
    for (let row = 0; row < ROWS; row += 1) this.#checkRow(`r${row}`, first!);
  }

  #checkRow(row: string, stored: ReadonlyMap<string, Uint8Array>): void {
    const writes = this.written.filter((write) => write.row === row);
    const newest = writes.filter((write) => write.isAcknowledged).at(-1);
    const bytes = stored.get(toHex(storedRowKey(encodeRowKey(rowKey(row)))));
    const image = bytes === undefined ? undefined : liveRow(decodeImage(openRow(bytes, checksum).image));
    if (image === undefined) {
      const deletions = writes.filter(({ kind, timestampUs }) => kind === "delete" && timestampUs >= (newest?.timestampUs ?? 0n));
      assert(newest === undefined || deletions.length > 0, `${row}: an acknowledged write is there until a deletion`);
      return;
    }
    const cell = image.columns.get("v");
    const shown = writes.find((write) => cell?.kind === "text" && write.value === cell.value);
    assert(shown !== undefined, `${row}: what is there was written`);
    assert(newest === undefined || shown.timestampUs >= newest.timestampUs, `${row}: nothing older comes back over an acknowledged write`);
  }

  /** An acknowledged write is at two of three replicas at any time, or at one that refuses to answer for the row. */
  #checkMajority(row: string): void {
    const newest = this.written.filter((write) => write.row === row && write.isAcknowledged).at(-1);
    const key = toHex(storedRowKey(encodeRowKey(rowKey(row))));
    if (newest === undefined || newest.timestampUs <= (this.#forgottenUs.get(key) ?? 0n)) return;
    const copies = this.#ring.nodes.map((node) => this.#ring.stored(node).get(key)).filter((bytes) => bytes !== undefined);
    const kept = copies.filter((bytes) => !isSound(bytes) || hasAtLeast(bytes, newest));
    assert(kept.length >= 2, `${row}: a majority has what was acknowledged`);
  }

  #node(): Node {
    return this.#ring.nodes[this.#below(3)]!;
  }

  #changeLink(): Promise<void> {
    const [from, to] = [this.#node(), this.#node()];
    this.#ring.links.set(`${from.name}>${to.name}`, LINKS[this.#below(LINKS.length)]!);
    return Promise.resolve();
  }

  async #write(node: Node): Promise<void> {
    if (node.life === undefined) return;
    const write = this.#draw();
    write.isAcknowledged = await this.#ring.write(this.#ring.nodes.indexOf(node), mutationOf(write));
  }

  /** The write goes out, and its node dies before it knows what became of it. */
  async #crashInWrite(node: Node): Promise<void> {
    if (node.life === undefined) return;
    const write = this.#draw();
    const { rows } = node.life;
    void rows.apply([mutationOf(write)], { timeoutMs: 1000 }).then(
      () => (write.isAcknowledged = true),
      () => undefined,
    );
    for (let turns = this.#below(6); turns > 0; turns -= 1) await Promise.resolve();
    this.#ring.crash(node);
    await this.#ring.clock.pass(2000);
  }

  async #compareSome(node: Node): Promise<void> {
    for (const peer of this.#ring.nodes) if (node.name < peer.name) await this.#ring.compare(node, peer.name, 1 + this.#below(3));
  }

  /** At most one copy of a row at a time, and only of rows that two sound copies hold. */
  async #damage(node: Node, row: string): Promise<void> {
    const key = toHex(storedRowKey(encodeRowKey(rowKey(row))));
    const acknowledged = this.written.filter((write) => write.row === row && write.isAcknowledged).at(-1);
    const others = this.#ring.nodes.filter((other) => other !== node).map((other) => this.#ring.stored(other).get(key));
    const sound = others.filter((bytes) => bytes !== undefined && isSound(bytes));
    const isElsewhere = acknowledged === undefined || sound.some((bytes) => hasAtLeast(bytes!, acknowledged));
    const isAlone = others.every((bytes) => bytes === undefined || isSound(bytes));
    if (!isElsewhere || !isAlone) return;
    this.#damaged.add(`${node.name} ${key}`);
    await this.#ring.damage(node, row);
  }

  /** Mostly every replica has every deletion; gc_grace passes, and one node collects. */
  async #forget(): Promise<void> {
    const ring = this.#ring;
    ring.links.clear();
    for (const node of ring.nodes) await ring.start(node);
    for (let round = this.#below(4); round > 0; round -= 1) {
      await ring.compareAll();
      await ring.clock.pass(2000);
    }
    if (this.#below(3) === 0) await this.#changeLink();
    await this.#collectNow(this.#node());
  }

  async #collectNow(node: Node): Promise<void> {
    await this.#ring.clock.pass(GC_GRACE_MS + 1);
    await this.#ring.collect(node);
  }

  /** One replica misses a write; a read finds that, and what it sends there stays on its way. */
  async #repairLate(reader: Node): Promise<void> {
    const missing = this.#othersOf(reader)[this.#below(2)]!;
    this.#setLinks(reader, "up");
    this.#ring.links.set(`${reader.name}>${missing.name}`, "lossy");
    await this.#write(reader);
    this.#ring.links.set(`${reader.name}>${missing.name}`, "late");
    await this.#read(reader, this.written.at(-1)?.row ?? "r0");
  }

  /** Which tombstones went while something happened. */
  async #noting(act: () => Promise<void>): Promise<void> {
    const before = this.#ring.nodes.map((node) => this.#ring.stored(node));
    this.#damaged.clear();
    await act();
    for (const [at, node] of this.#ring.nodes.entries()) {
      const after = this.#ring.stored(node);
      for (const [name, bytes] of before[at]!) {
        if (after.has(name) || this.#damaged.has(`${node.name} ${name}`) || !isSound(bytes)) continue;
        const image = decodeImage(openRow(bytes, checksum).image);
        if (image.deletedAtUs === undefined || liveRow(image) !== undefined) continue;
        this.purged += 1;
        if (image.deletedAtUs > (this.#forgottenUs.get(name) ?? 0n)) this.#forgottenUs.set(name, image.deletedAtUs);
      }
    }
    this.#checkForgotten();
  }

  /** Of what a deletion deleted nothing is anywhere, once the deletion is forgotten. */
  #checkForgotten(): void {
    for (const node of this.#ring.nodes) {
      for (const [name, bytes] of this.#ring.stored(node)) {
        const forgottenUs = this.#forgottenUs.get(name) ?? 0n;
        if (!isSound(bytes)) continue;
        const { markerUs, cells } = decodeImage(openRow(bytes, checksum).image);
        const times = [...cells.values()].map(({ timestampUs }) => timestampUs).concat(markerUs ?? []);
        assert(
          times.every((timeUs) => timeUs > forgottenUs),
          `${node.name}: a deleted row is there again`,
        );
      }
    }
  }

  /** What an acknowledged write or an earlier read has shown stays: reads come one after the other. */
  async #read(node: Node, row: string): Promise<void> {
    if (node.life === undefined) return;
    const answer = await this.#ring.read(this.#ring.nodes.indexOf(node), rowKey(row));
    if (answer === "failed") return;
    const writes = this.written.filter((write) => write.row === row);
    const seen = this.#shown.get(row);
    const acknowledged = writes.filter((write) => write.isAcknowledged).at(-1);
    const newest = seen === undefined || (acknowledged?.timestampUs ?? 0n) > seen.timestampUs ? acknowledged : seen;
    const cell = answer?.columns.get("v");
    const shown = writes.find((write) => cell?.kind === "text" && write.value === cell.value);
    const isSame = (write: Written): boolean => (shown === undefined ? write.kind === "delete" : write === shown);
    const isExplained = writes.some((write) => isSame(write) && write.timestampUs >= (newest?.timestampUs ?? 0n));
    assert(
      isExplained || (newest === undefined && answer === undefined),
      `${row}: a read shows less than what was acknowledged or read before`,
    );
    if (shown !== undefined) this.#shown.set(row, shown);
  }

  /** What one replica alone has is read through a second one, then without the first: it is still there. */
  async #readTwice(first: Node): Promise<void> {
    const second = this.#othersOf(first)[this.#below(2)]!;
    this.#setLinks(first, "lossy");
    await this.#write(first);
    this.#ring.links.set(`${first.name}>${second.name}`, "up");
    const row = this.written.at(-1)?.row ?? "r0";
    await this.#read(first, row);
    this.#setLinks(second, "up");
    this.#ring.links.set(`${second.name}>${first.name}`, "down");
    await this.#read(second, row);
  }

  /** One replica misses a write, and one of the two that have it finds its copy damaged. */
  async #healWhatOneMissed(node: Node): Promise<void> {
    const missing = this.#othersOf(node)[this.#below(2)]!;
    this.#setLinks(node, "up");
    this.#ring.links.set(`${node.name}>${missing.name}`, "lossy");
    await this.#write(node);
    this.#ring.links.set(`${node.name}>${missing.name}`, "up");
    const row = this.written.at(-1)?.row ?? "r0";
    await this.#damage(node, row);
    await this.#read(node, row);
  }

  async #withLinks(act: () => Promise<void>): Promise<void> {
    const { links } = this.#ring;
    const before = [...links];
    await act();
    links.clear();
    for (const [name, link] of before) links.set(name, link);
  }

  #othersOf(node: Node): Node[] {
    return this.#ring.nodes.filter((other) => other !== node);
  }

  #setLinks(from: Node, link: Link): void {
    for (const to of this.#othersOf(from)) this.#ring.links.set(`${from.name}>${to.name}`, link);
  }

  #draw(): Written {
    const nowUs = this.#ring.clock.nowUs();
    this.#lastUs = nowUs > this.#lastUs ? nowUs : this.#lastUs + 10n;
    const kind = this.#below(3) === 0 ? "delete" : "insert";
    const write: Written = {
      row: `r${this.#below(ROWS)}`,
      kind,
      timestampUs: this.#lastUs,
      value: kind === "insert" ? `v${this.written.length}` : "",
      isAcknowledged: false,
    };
    this.written.push(write);
    return write;
  }
}

function mutationOf({ row, kind, timestampUs, value }: Written): Parameters<TestRing["write"]>[1] {
  const at = { key: rowKey(row), timestampUs: timestampUsOf(timestampUs) };
  return kind === "delete" ? { kind, ...at } : { kind, ...at, columns: [{ column: "v", value: { kind: "text", value } }] };
}

function isSound(bytes: Uint8Array): boolean {
  try {
    openRow(bytes, checksum);
    return true;
  } catch {
    return false;
  }
}

function hasAtLeast(bytes: Uint8Array, write: Written): boolean {
  const image = decodeImage(openRow(bytes, checksum).image);
  const times = [image.deletedAtUs ?? 0n, image.markerUs ?? 0n, ...[...image.cells.values()].map((cell) => cell.timestampUs)];
  return times.some((timeUs) => timeUs >= write.timestampUs);
}
