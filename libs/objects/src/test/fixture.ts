import { createHash } from "node:crypto";
import { MemoryObjectData, MemoryObjectMetadata } from "@concord/port-contracts";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError, silentLog, silentMetrics, toHex, type Clock, type Timer } from "@concord/runtime";
import type { ObjectStore, UploadBody } from "../api.ts";
import type { ObjectStoreContext } from "../context.ts";
import type { EncryptionContext } from "../encryption/data-keys.ts";
import type { ObjectLimits } from "../limits.ts";
import { createObjectStore, objectStoreContext } from "../object-store.ts";
import { decodeRow, referencesOf, type Row } from "../row-codec.ts";
import { bodyKey, keyOfObject } from "../row-keys.ts";
import type { StoredChecksum } from "../rows.ts";
import type { NewBlob, BlobName, Resolution, UnresolvedCommit, UploadJournal } from "../upload-journal.ts";

/** No real waiting: a timer fires in the next turn, and its time has passed then. */
export class HurriedClock implements Clock {
  #nowMs: number;

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const atMs = this.#nowMs + delayMs;
    const timer = setImmediate(() => {
      this.#nowMs = Math.max(this.#nowMs, atMs);
      action();
    });
    return { cancel: () => clearImmediate(timer) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }
}

/** Names in order, and what became of each. */
export class MemoryUploadJournal implements UploadJournal {
  readonly mode = "reservation";
  readonly resolved = new Map<Oid, Resolution>();
  readonly taken: Oid[] = [];
  readonly refused: Oid[] = [];
  /** Deletes that were begun and not resolved. */
  openDeletes = 0;
  epoch: number;
  /** False: the epoch was closed by another gateway. */
  live = true;
  /** It is unknown whether the epoch is open. */
  unsure: ConcordError | undefined;

  constructor(epoch: number) {
    this.epoch = epoch;
  }

  get unresolved(): readonly Oid[] {
    return this.taken.filter((oid) => !this.resolved.has(oid) && !this.refused.includes(oid));
  }

  begin(_blob: NewBlob): Promise<BlobName> {
    const oid = oidOf(this.epoch, this.taken.length);
    this.taken.push(oid);
    return Promise.resolve({
      oid,
      resolve: (how: Resolution) => {
        if (this.resolved.has(oid)) throw new Error(`${oid} is resolved twice: ${this.resolved.get(oid)} and ${how}`);
        this.resolved.set(oid, how);
        return Promise.resolve();
      },
      confirmLive: () => {
        if (this.unsure !== undefined) return Promise.reject(this.unsure);
        return this.live ? Promise.resolve() : Promise.reject(new ConcordError("EPOCH_FENCED", "the epoch is closed"));
      },
    });
  }

  fenced(oid: Oid): void {
    this.refused.push(oid);
    this.epoch += 1000;
    this.live = true;
  }

  beginDelete(): Promise<{ resolve(): Promise<void> }> {
    this.openDeletes += 1;
    const resolve = (): Promise<void> => {
      this.openDeletes -= 1;
      return Promise.resolve();
    };
    return Promise.resolve({ resolve });
  }
}

export interface Fixture {
  readonly context: ObjectStoreContext;
  readonly store: ObjectStore;
  readonly metadata: MemoryObjectMetadata;
  readonly data: MemoryObjectData;
  readonly clock: HurriedClock;
  readonly journal: MemoryUploadJournal;
  readonly unresolved: UnresolvedCommit[];
  readonly counts: Map<string, number>;
}

export interface FixtureOptions {
  /** Another gateway over the stores of this one. */
  readonly beside?: Fixture;
  readonly epoch?: number;
  readonly shards?: number;
  readonly limits?: Partial<ObjectLimits>;
  readonly failpoint?: (name: string) => void;
  readonly encryption?: EncryptionContext;
}

/** One gateway's store over memory. */
export function openFixture(options: FixtureOptions = {}): Fixture {
  const epoch = options.epoch ?? (options.beside === undefined ? 1 : 2);
  const metadata = options.beside?.metadata ?? new MemoryObjectMetadata();
  const data = options.beside?.data ?? new MemoryObjectData();
  const clock = options.beside?.clock ?? new HurriedClock();
  const journal = new MemoryUploadJournal(epoch);
  const unresolved: UnresolvedCommit[] = [];
  const counts = new Map<string, number>();
  let guid = BigInt(epoch) << 32n;
  const context = objectStoreContext({
    metadata,
    data,
    clock,
    guids: { next: () => Promise.resolve((guid += 1n)) },
    log: silentLog,
    metrics: { ...silentMetrics, count: (name, value = 1) => counts.set(name, (counts.get(name) ?? 0) + value) },
    failpoint: options.failpoint ?? (() => undefined),
    journal,
    unresolved: { add: (commit) => unresolved.push(commit) },
    shards: options.shards ?? 1,
    // Bodies of a few bytes are in the head row and beside it.
    limits: { headBytesMax: 1, ...options.limits },
    ...(options.encryption === undefined ? {} : { encryption: options.encryption }),
  });
  return { context, store: createObjectStore(context), metadata, data, clock, journal, unresolved, counts };
}

/** A fixture with the bucket "photos" of tenant "t". */
export async function openPhotos(options: FixtureOptions = {}): Promise<Fixture> {
  const fixture = openFixture(options);
  await fixture.store.createBucket({ bucket: "photos", tenant: "t", region: "r" });
  return fixture;
}

export const NO_ATTRIBUTES = { headers: {}, metadata: {}, tags: {} };

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** `count` bytes that differ from place to place. */
export function manyBytes(count: number, seed = 1): Uint8Array {
  return Uint8Array.from({ length: count }, (_, at) => (at * 31 + (at >> 8) * 7 + seed * 13) % 251);
}

export const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");

export interface BodyFaults {
  readonly chunkBytes?: number;
  /** The client breaks off after so many bytes. */
  readonly breaksAfter?: number;
  /** A digest does not fit, as is known at the end. */
  readonly badDigest?: boolean;
  readonly unannounced?: boolean;
  readonly checksum?: StoredChecksum;
}

export function bodyOf(content: Uint8Array | string, faults: BodyFaults = {}): UploadBody {
  const bytes = typeof content === "string" ? bytesOf(content) : content;
  const chunkBytes = faults.chunkBytes ?? 10_000;
  // oxlint-disable-next-line require-await
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      if (faults.breaksAfter !== undefined && at >= faults.breaksAfter) throw new ConcordError("CANCELLED", "the client is gone");
      yield bytes.slice(at, at + chunkBytes);
    }
  }
  return {
    lengthBytes: faults.unannounced === true ? undefined : bytes.length,
    chunks: chunks(),
    finish: () => {
      if (faults.badDigest === true) throw new ConcordError("MALFORMED_REQUEST", "the digest is another");
      return { md5Hex: md5(bytes), checksum: faults.checksum };
    },
  };
}

export async function put(fixture: Fixture, key: string, content: Uint8Array | string, faults: BodyFaults = {}): Promise<string> {
  const body = bodyOf(content, faults);
  const stored = await fixture.store.putObject({ bucket: "photos", key, body, attributes: NO_ATTRIBUTES, precondition: {} });
  return stored.etag;
}

/** The object's bytes; undefined: there is none. */
export async function get(fixture: Fixture, key: string): Promise<Uint8Array | undefined> {
  try {
    const found = await fixture.store.getObject({ bucket: "photos", key, range: undefined, precondition: {}, part: undefined });
    return await collect(found.bytes);
  } catch (error) {
    if (error instanceof ConcordError && error.code === "OBJECT_UNKNOWN") return undefined;
    throw error;
  }
}

export async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(Uint8Array.from(chunk));
  return new Uint8Array(Buffer.concat(parts));
}

export function rowsOf(fixture: Fixture): readonly Row[] {
  return fixture.metadata.contents().map((row) => decodeRow(row.value));
}

/** Blobs that live rows name, and blobs that GC entries name. */
export function referencesIn(fixture: Fixture): { readonly live: readonly Oid[]; readonly garbage: readonly Oid[] } {
  const rows = rowsOf(fixture);
  const named = (wanted: (row: Row) => boolean): Oid[] =>
    rows
      .filter(wanted)
      .flatMap((row) => referencesOf(row).oids)
      .sort();
  return { live: named((row) => row.kind !== "garbage"), garbage: named((row) => row.kind === "garbage") };
}

/** Bodies that no version names, or more than one; versions whose body is not there. */
export function bodyFaultsOf({ metadata }: Pick<Fixture, "metadata">): readonly string[] {
  const rows = metadata.contents().map(({ key, value }) => ({ key, row: decodeRow(value) }));
  const stored = rows.filter(({ row }) => row.kind === "body").map(({ key }) => toHex(key));
  const named = rows.flatMap(({ key, row }) =>
    row.kind === "object" && row.content.kind === "beside" ? [toHex(bodyKey(keyOfObject(key), row.content.guid))] : [],
  );
  return [
    ...stored.filter((body) => !named.includes(body)).map((body) => `leaked body ${body}`),
    ...named.filter((body) => !stored.includes(body)).map((body) => `dangling body ${body}`),
    ...named.filter((body, at) => named.indexOf(body) !== at).map((body) => `body named twice ${body}`),
  ];
}

/** What is wrong with the stores when nothing runs and nothing is unresolved; empty: no leak, nothing dangling, nothing both live and garbage. */
export function faultsOf(fixture: Fixture): readonly string[] {
  const { live, garbage } = referencesIn(fixture);
  const blobs = fixture.data.contents();
  const stored = new Set(blobs.map(({ oid }) => oid));
  const named = new Set([...live, ...garbage]);
  return [
    ...bodyFaultsOf(fixture),
    ...blobs.filter(({ oid }) => !named.has(oid)).map(({ oid }) => `leaked ${oid}`),
    ...live.filter((oid) => !stored.has(oid)).map((oid) => `dangling ${oid}`),
    ...live.filter((oid) => garbage.includes(oid)).map((oid) => `live and garbage ${oid}`),
    ...live.filter((oid, at) => live.indexOf(oid) !== at).map((oid) => `named twice ${oid}`),
    ...blobs.filter(({ oid, state }) => live.includes(oid) && state.kind !== "sealed").map(({ oid }) => `not sealed ${oid}`),
  ];
}
