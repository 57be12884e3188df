// Three nodes whose links and crashes a test controls: quorum writes, hints, comparison and healing as a node composes them.
import { MemoryKeyValue } from "@concord/port-contracts";
import type { KeyRange, Mutation, Row, RowKey } from "@concord/ports";
import { Forgotten, LocalRowReplica, QuorumRowStore, ROWS_NAMESPACE, storedRowKey, type RowReplica } from "@concord/quorum";
import { encodeRowKey, liveRow } from "@concord/rows";
import { assert, ConcordError, SEQ_NONE, silentLog, silentMetrics, sleep, toHex } from "@concord/runtime";
import { AntiEntropy, type ComparedPeer } from "../anti-entropy.ts";
import { HintDelivery } from "../hint-delivery.ts";
import { HintStore } from "../hint-store.ts";
import { LocalTombstones } from "../local-tombstones.ts";
import { PlainTombstoneCollector, type TombstonePeer } from "../plain-tombstones.ts";
import { RowHealer } from "../row-healer.ts";
import { ComparedRows } from "../row-sums.ts";
import { SEGMENT_SLACK } from "../limits.ts";
import { checksum, ManualClock, PlainRunner, rowKey } from "./fixture.ts";

/**
 * What a call from one node to another meets. `lossy`: it is lost though the peer seems reachable; `mute`: it takes effect, the answer is lost; `late`:
 * writes and copies take effect whenever the test lets them, long after the caller has given up on them.
 */
export type Link = "up" | "down" | "lossy" | "mute" | "late";

export interface RingLimits {
  readonly hintBytesMax: number;
  readonly gcGraceMs: number;
  readonly segmentRows: number;
  /** Between two comparisons that nothing asks for. */
  readonly intervalMs: number;
}

/** One life of a node. */
interface Life {
  readonly local: LocalRowReplica;
  readonly rows: QuorumRowStore;
  readonly hints: HintStore;
  readonly delivery: HintDelivery;
  readonly compared: ComparedRows;
  readonly antiEntropy: AntiEntropy;
  readonly healer: RowHealer;
  readonly forgotten: Forgotten;
  readonly tombstones: LocalTombstones;
  readonly collector: PlainTombstoneCollector;
  /** By peer: the newest collection that it named in this life. */
  readonly collections: Map<string, string>;
}

export interface Node {
  readonly name: string;
  store: MemoryKeyValue;
  life: Life | undefined;
}

const TIMEOUT_MS = 1000;

export class TestRing {
  readonly clock = new ManualClock();
  readonly nodes: readonly Node[] = ["n1", "n2", "n3"].map((name) => ({ name, store: new MemoryKeyValue(), life: undefined }));
  /** "from>to" -> what its calls meet; up when absent. */
  readonly links = new Map<string, Link>();
  /** Calls on late links: each takes effect at whatever life its node has then. */
  readonly late: (() => Promise<void>)[] = [];
  /** Bytes of rows that peers give in a millisecond. */
  bytesPerMs = Number.POSITIVE_INFINITY;
  readonly #limits: RingLimits;

  private constructor(limits: RingLimits) {
    this.#limits = limits;
  }

  static async open(limits: Partial<RingLimits> = {}): Promise<TestRing> {
    const ring = new TestRing({ hintBytesMax: 1_000_000, gcGraceMs: 1_000_000_000, segmentRows: 4, intervalMs: 10_000, ...limits });
    for (const node of ring.nodes) await ring.start(node);
    return ring;
  }

  life(at: number): Life {
    const { life } = this.nodes[at]!;
    assert(life !== undefined, "the node runs");
    return life;
  }

  /** Loses what is not on disk. */
  crash(node: Node): void {
    if (node.life === undefined) return;
    node.life = undefined;
    node.store = new MemoryKeyValue(node.store.crash());
  }

  async start(node: Node): Promise<void> {
    if (node.life !== undefined) return;
    const { store, name } = node;
    const { clock } = this;
    const { hintBytesMax, gcGraceMs, segmentRows, intervalMs } = this.#limits;
    const observed = { log: silentLog, metrics: silentMetrics };
    const runner = new PlainRunner(store);
    const others = this.nodes.filter((other) => other !== node);
    const collections = new Map<string, string>();
    const peers = others.map((other) => this.#rowsOf(node, other, collections));
    const forgotten = await Forgotten.open(store, store.incarnation, checksum);
    const [catchUp, appliedSeq] = [(): Promise<void> => Promise.resolve(), () => SEQ_NONE];
    const shared = { runner, forgotten, checksum, gcGraceMs, clock, timeoutMs: TIMEOUT_MS, ...observed };
    const healer = new RowHealer({ ...shared, peers, catchUp, applied: () => [] });
    const onDamaged = (storedKey: Uint8Array): void => healer.noticed(storedKey);
    const reader = {
      getMany: (keys: readonly Uint8Array[]) => store.getMany(keys),
      range: (range: KeyRange) => store.range(range),
      rangeAtOnce: (range: KeyRange) => store.range(range),
    };
    const local = new LocalRowReplica({ ...shared, name, reader, hasAllRows: true, catchUp, appliedSeq, onDamaged });
    const hints = await HintStore.open(store, { runner, reader: store, checksum, ...observed, bytesMax: hintBytesMax });
    const onMissed = (peer: string, mutations: readonly Uint8Array[]): void =>
      void hints.add(peer, clock.nowMs(), mutations).catch(() => undefined);
    const rows = new QuorumRowStore({ replicas: [local, ...peers], clock, checksum, onMissed });
    const delivery = new HintDelivery({ hints, peers, clock, timeoutMs: TIMEOUT_MS, gcGraceMs, ...observed });
    const compared = new ComparedRows({ reader: store, checksum, onDamaged, segmentRows });
    const antiEntropy = new AntiEntropy({
      self: name,
      local: compared,
      own: local,
      peers: others.map((other) => this.#comparedOf(node, other, collections)),
      due: hints.due,
      runner,
      reader: store,
      checksum,
      clock,
      timeoutMs: TIMEOUT_MS,
      intervalMs,
      ...observed,
    });
    const tombstones = new LocalTombstones({ ...shared, reader: store });
    const collector = new PlainTombstoneCollector({
      ...shared,
      isCollector: true,
      local: tombstones,
      peers: others.map((other) => this.#tombstonesOf(node, other)),
      reader: store,
      intervalMs,
      pageRows: segmentRows,
    });
    node.life = { local, rows, hints, delivery, compared, antiEntropy, healer, forgotten, tombstones, collector, collections };
  }

  /** Whether it is acknowledged; an answer that does not come is none. */
  async write(at: number, mutation: Mutation): Promise<boolean> {
    const { rows } = this.life(at);
    const written = rows.apply([mutation], { timeoutMs: TIMEOUT_MS }).then(
      () => true,
      () => false,
    );
    await this.clock.pass(2 * TIMEOUT_MS);
    return written;
  }

  /** A quorum read; undefined = there is no such row. */
  async read(at: number, key: RowKey): Promise<Row | undefined | "failed"> {
    const { rows } = this.life(at);
    const answer = rows.read([key], { timeoutMs: TIMEOUT_MS }).then(
      ([image]) => liveRow(image),
      () => "failed" as const,
    );
    await this.clock.pass(2 * TIMEOUT_MS);
    return answer;
  }

  /** The node hands over what it can. */
  async deliverHints(node: Node): Promise<void> {
    const { life } = node;
    if (life === undefined) return;
    const delivered = this.nodes
      .filter((peer) => peer !== node)
      .map((peer) => life.delivery.deliver(this.#rowsOf(node, peer, life.collections)).catch(() => false));
    await this.clock.pass(4 * TIMEOUT_MS);
    await Promise.all(delivered);
  }

  /** Segments of every pair, up to the end of a round; answers whether each pair came there. */
  async compareAll(segmentsMax = 1000): Promise<boolean> {
    let isWhole = true;
    for (const [at, node] of this.nodes.entries()) {
      for (const peer of this.nodes.slice(at + 1)) isWhole = (await this.compare(node, peer.name, segmentsMax)) && isWhole;
    }
    return isWhole;
  }

  async compare(node: Node, peer: string, segmentsMax: number): Promise<boolean> {
    for (let segment = 0; segment < segmentsMax; segment += 1) {
      const { life } = node;
      if (life === undefined) return false;
      const compared = life.antiEntropy.compareNext(peer).catch(() => "failed" as const);
      await this.clock.pass(2 * TIMEOUT_MS);
      const result = await compared;
      if (result !== false) return result === true;
    }
    return false;
  }

  /** Pages of a collection by this node, up to the end of a pass; a page that fails ends it. */
  async collect(node: Node, pagesMax = 1000): Promise<boolean> {
    for (let page = 0; page < pagesMax; page += 1) {
      const { life } = node;
      if (life === undefined) return false;
      const collected = life.collector.collectNext().catch(() => "failed" as const);
      await this.clock.pass(2 * TIMEOUT_MS);
      const result = await collected;
      if (result !== false) return result === true;
    }
    return false;
  }

  /** One call on a late link takes effect. */
  async release(at: number): Promise<void> {
    const [go] = this.late.splice(at, 1);
    await go?.();
  }

  /** All rows of a node as they are stored. */
  stored(node: Node): ReadonlyMap<string, Uint8Array> {
    const rows = node.store.contents().filter(({ key }) => key[0] === ROWS_NAMESPACE);
    return new Map(rows.map(({ key, value }) => [toHex(key), value]));
  }

  /** Changes a byte of a row as it is stored. False: the node does not have it. */
  async damage(node: Node, row: string): Promise<boolean> {
    const key = storedRowKey(encodeRowKey(rowKey(row)));
    const value = await node.store.get(key);
    if (value === undefined) return false;
    const changed = value.slice();
    changed[changed.length - 1]! ^= 1;
    await node.store.batch([{ kind: "put", key, value: changed }], { sync: true });
    return true;
  }

  #rowsOf(from: Node, to: Node, collections: Map<string, string>): RowReplica {
    const isReachable = (): boolean => this.#link(from, to) !== "down" && to.life !== undefined;
    const applyCopies: RowReplica["applyCopies"] = (mutations, collection) => {
      return this.#write(from, to, async ({ local }) => {
        const areTaken = await local.applyCopies(mutations, collection);
        collections.set(to.name, local.collection);
        return areTaken;
      });
    };
    return {
      name: to.name,
      get reachable() {
        return isReachable();
      },
      get collection() {
        return collections.get(to.name);
      },
      applyRows: (mutations) => this.#write(from, to, ({ local }) => local.applyRows(mutations)),
      applyCopies,
      readRows: async (keys, timeoutMs, after) => {
        const rows = await this.#call(from, to, ({ local }) => local.readRows(keys, timeoutMs, after));
        await this.#transfer(rows, timeoutMs);
        return rows;
      },
      readRowRange: (range, timeoutMs, after) => this.#call(from, to, ({ local }) => local.readRowRange(range, timeoutMs, after)),
      catchUp: () => Promise.resolve(),
    };
  }

  #comparedOf(from: Node, to: Node, collections: Map<string, string>): ComparedPeer {
    const { name, applyCopies } = this.#rowsOf(from, to, collections);
    return {
      name,
      reachable: true,
      get collection() {
        return collections.get(to.name);
      },
      applyCopies,
      sums: (segment) =>
        this.#call(from, to, ({ compared, forgotten }) => {
          collections.set(to.name, forgotten.collection);
          return compared.sums(segment, SEGMENT_SLACK);
        }),
      rows: async (segment, leaves, timeoutMs) => {
        const page = await this.#call(from, to, ({ compared }) => compared.rows(segment, new Set(leaves), 1));
        await this.#transfer(
          page.rows.map(({ value }) => value),
          timeoutMs,
        );
        return page;
      },
    };
  }

  #tombstonesOf(from: Node, to: Node): TombstonePeer {
    return {
      name: to.name,
      reachable: true,
      held: (tombstones) => this.#call(from, to, (life) => life.tombstones.held(tombstones)),
      drop: (tombstones) => this.#write(from, to, async (life) => void (await life.tombstones.drop(tombstones))),
    };
  }

  /** Takes the time of the bytes. DEADLINE_EXCEEDED: that is longer than the call has. */
  async #transfer(rows: readonly Uint8Array[], timeoutMs: number): Promise<void> {
    if (this.bytesPerMs === Number.POSITIVE_INFINITY) return;
    const neededMs = Math.ceil(rows.reduce((sum, { length }) => sum + length, 0) / this.bytesPerMs);
    await sleep(this.clock, Math.min(neededMs, timeoutMs));
    if (neededMs > timeoutMs) throw new ConcordError("DEADLINE_EXCEEDED", "the deadline passed before the answer");
  }

  /** As `#call`, which a late link keeps. */
  async #write<Result>(from: Node, to: Node, act: (life: Life) => Promise<Result>): Promise<Result> {
    if (this.#link(from, to) !== "late") return this.#call(from, to, act);
    this.late.push(async () => {
      if (to.life !== undefined) await act(to.life).catch(() => undefined);
    });
    await sleep(this.clock, TIMEOUT_MS);
    throw new ConcordError("DEADLINE_EXCEEDED", `${to.name} does not answer`);
  }

  #link(from: Node, to: Node): Link {
    return this.links.get(`${from.name}>${to.name}`) ?? "up";
  }

  async #call<Result>(from: Node, to: Node, act: (life: Life) => Promise<Result>): Promise<Result> {
    const caller = from.life;
    await Promise.resolve();
    const link = this.#link(from, to);
    if (link === "down" || to.life === undefined) throw new ConcordError("CONNECTION_LOST", `${to.name} is away`, { applied: "no" });
    if (link === "lossy") throw new ConcordError("CONNECTION_LOST", "the call is lost");
    const result = await act(to.life);
    if (link === "mute") throw new ConcordError("CONNECTION_LOST", "the answer is lost");
    // A call of a life that ended has no effect behind it.
    return from.life === caller ? result : new Promise(() => undefined);
  }
}
