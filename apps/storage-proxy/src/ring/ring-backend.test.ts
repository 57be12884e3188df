// The StorageBackend contract on rings of real backends in one process: 1 node and 3, memory for network and disks, time by hand.
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { VerdictRelay } from "@concord/failure-detection";
import { encodeEntry } from "@concord/logged-batch";
import {
  batchReplayContract,
  MemoryKeyValue,
  storageBackendContract,
  type LeftBatch,
  type ReplaySubject,
  type StorageBackendSubject,
} from "@concord/port-contracts";
import type { StorageBackend } from "@concord/ports";
import { MemoryTransport, startHost, tokenAuthenticator } from "@concord/rpc";
import { encodeMutation } from "@concord/rows";
import { silentMetrics, plusUs, silentLog, timestampUsOf, type Environment } from "@concord/runtime";
import { createMetrics } from "@concord/telemetry";
import type { OpenedBackend } from "../backend-definition.ts";
import { STORAGE_PROXY_METRICS } from "../metrics.ts";
import { VirtualClock } from "../test/virtual-clock.ts";
import type { RingConfig } from "./config.ts";
import { openRing } from "./open-ring.ts";
import { RingBackend } from "./ring-backend.ts";

const PEER_TOKEN = "peer-secret";
const checksum = (bytes: Uint8Array): number => crc32(bytes);
const addressOf = (name: string): string => `${name}:7000`;

/** A ring whose first node is the backend under test; the clock runs while one of its calls is under way. */
class TestedRing {
  readonly clock = new VirtualClock();
  readonly #names: readonly string[];
  #network = new MemoryTransport({ clock: this.clock });
  #stores: readonly MemoryKeyValue[];
  #opened: readonly OpenedBackend[] = [];

  constructor(size: 1 | 3) {
    this.#names = Array.from({ length: size }, (_, at) => `node-${at + 1}`);
    this.#stores = this.#names.map(() => new MemoryKeyValue());
  }

  /** The first node, not started; its peers start, purge and stop with it. */
  async open(): Promise<StorageBackend> {
    this.#opened = await Promise.all(this.#names.map((name, at) => this.#openNode(name, this.#stores[at]!)));
    const backends = this.#opened.map(({ backend }) => backend);
    const [first] = backends;
    const all = <Result>(act: (backend: StorageBackend) => Promise<Result>): Promise<Result> =>
      this.clock.run(Promise.all(backends.map(act)).then((results) => results[0]!));
    return pumped(this.clock, first!, {
      start: (signal) => all((one) => one.start(signal)),
      stop: () => all((one) => one.stop()),
      // each node removes its own replicas' rows
      purge: (beforeMs) => all((one) => one.purge(beforeMs)),
    });
  }

  reopen(): Promise<StorageBackend> {
    this.#network = new MemoryTransport({ clock: this.clock });
    this.#stores = this.#stores.map((store) => new MemoryKeyValue(store.crash()));
    return this.open();
  }

  /** Puts an entry into the first node's log, as a peer does that logs a batch there. */
  async leave({ id, timestampUs, mutations }: LeftBatch, createdMs: number): Promise<void> {
    const coordinator = this.#names.at(-1)!;
    const encoded = mutations.map(encodeMutation);
    const entry = { id, coordinator, createdMs, timestampUs, holders: ["node-1"], rowCount: mutations.length, mutations: encoded };
    const backend = this.#opened[0]!.backend;
    if (!(backend instanceof RingBackend)) throw new Error("the first node is a ring's");
    const { engine, batchLog } = backend.node();
    await this.clock.run(engine.submit(batchLog.write({ entries: [encodeEntry(entry, checksum)], decided: [], removed: [] })));
  }

  async #openNode(name: string, store: MemoryKeyValue): Promise<OpenedBackend> {
    const ring = this.#names.map((member) => ({ name: member, address: addressOf(member), datacenter: "dc" }));
    const config: RingConfig = {
      nodeName: name,
      listenAddress: addressOf(name),
      ring,
      dataFolder: "unused",
      batchReplayIntervalMs: 10_000,
      repairIntervalMs: 600_000,
      hintBytesMax: 1024 * 1024,
      batchLogEntriesMax: 1000,
      tombstoneIntervalMs: 3_600_000,
      lowSpaceBytes: 0,
      reserveBytes: 0,
      writeTimeoutMs: 2000,
      peerToken: PEER_TOKEN,
    };
    const environment = this.#environment();
    const { clock, log, transport } = environment;
    let lastUs = timestampUsOf(clock.nowUs());
    const opened = await openRing({
      config,
      environment,
      authenticator: tokenAuthenticator([{ token: PEER_TOKEN, role: "peer" }]),
      drawTimestampUs: () => (lastUs = plusUs(lastUs, 1n)),
      writeClock: { markUs: lastUs, saw: () => undefined },
      onFailed: (cause) => {
        throw cause;
      },
      openKeyValue: () => Promise.resolve(store),
      failures: new VerdictRelay(),
    });
    await startHost({
      transport,
      address: addressOf(name),
      services: opened.services,
      clock,
      log,
      metrics: silentMetrics,
      authenticator: tokenAuthenticator([]),
      reflection: false,
    });
    return opened;
  }

  #environment(): Environment {
    const random = { bytes: (length: number) => new Uint8Array(length).fill(7), below: () => 0, float: () => 0 };
    const { clock } = this;
    return {
      clock,
      random,
      transport: this.#network,
      checksum,
      log: silentLog,
      metrics: createMetrics({ definitions: STORAGE_PROXY_METRICS }),
      failpoint: () => undefined,
    };
  }
}

/** The backend with time running during every call of it and of its parts. */
function pumped(clock: VirtualClock, backend: StorageBackend, ofAll: Pick<StorageBackend, "start" | "stop" | "purge">): StorageBackend {
  const through = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== "function") return member;
        return (...args: unknown[]): Promise<unknown> => clock.run(Promise.resolve(Reflect.apply(member, target, args)));
      },
    });
  return {
    get rows() {
      return through(backend.rows);
    },
    get groupLog() {
      return through(backend.groupLog);
    },
    get batches() {
      return through(backend.batches);
    },
    get ready() {
      return backend.ready;
    },
    ...ofAll,
  };
}

function subjectOf(size: 1 | 3): () => Promise<StorageBackendSubject> {
  return async () => {
    const ring = new TestedRing(size);
    return { backend: await ring.open(), reopen: () => ring.reopen() };
  };
}

function replayOf(size: 1 | 3): () => Promise<ReplaySubject> {
  return async () => {
    const ring = new TestedRing(size);
    const backend = await ring.open();
    await backend.start(new AbortController().signal);
    const { batches, rows } = backend;
    return {
      batches,
      rows,
      leaveBehind: (batch) => ring.leave(batch, ring.clock.nowMs()),
      leaveExpired: async (batch) => {
        await ring.leave(batch, 1);
        await batches.replay();
      },
    };
  };
}

for (const size of [1, 3] as const) {
  const named = (name: string, run: () => Promise<void>): unknown => test(`ring of ${size}: ${name}`, run);
  storageBackendContract(named, subjectOf(size));
  batchReplayContract(named, replayOf(size));
}
