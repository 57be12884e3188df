// A node that keeps the rows of several gateways, spoken to over the simulated network: requests come late, answers get lost.
import { KeyValueMetadata } from "@concord/adapter-key-value-metadata";
import { Engine } from "@concord/engine";
import type { MetadataCommit, MetadataOutcome, MetadataRange, MetadataRow, ObjectMetadata } from "@concord/ports";
import { ConcordError, toConcordError, type Channel, type Environment, type MethodDescriptor, type Transport } from "@concord/runtime";
import type { Booted, NodeHost } from "@concord/simulation";

/** Messages as JSON in which bytes and big numbers say what they are. */
function encode(message: object): Uint8Array {
  const text = JSON.stringify(message, (_, value: unknown) => {
    if (typeof value === "bigint") return { big: String(value) };
    return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString("latin1") } : value;
  });
  return Buffer.from(text);
}

function decode(bytes: Uint8Array): object {
  return JSON.parse(Buffer.from(bytes).toString(), (_, value: { readonly big?: string; readonly bytes?: string } | null) => {
    if (typeof value?.big === "string") return BigInt(value.big);
    return typeof value?.bytes === "string" ? Uint8Array.from(Buffer.from(value.bytes, "latin1")) : value;
  }) as object;
}

const method = (name: string): MethodDescriptor => ({
  path: `/simulation.Metadata/${name}`,
  requestStream: false,
  responseStream: false,
  encodeRequest: encode,
  decodeRequest: decode,
  encodeResponse: encode,
  decodeResponse: decode,
});

const READ = method("Read");
const RANGE = method("Range");
const COUNTERS = method("Counters");
const COMMIT = method("Commit");

/** JSON has no undefined: absent rows travel as null. */
const sent = <Value>(value: Value | undefined): Value | null => value ?? null;
const received = <Value>(value: Value | null): Value | undefined => value ?? undefined;

type WireCondition = { readonly key: Uint8Array; readonly version: MetadataRow["version"] | null };
type WireCommit = Omit<MetadataCommit, "conditions"> & { readonly conditions: readonly WireCondition[] };
type WireOutcome =
  | { readonly kind: "committed" }
  | { readonly kind: "conflict"; readonly rows: readonly (MetadataRow | null)[] }
  | { readonly kind: "unknown"; readonly reason: string };

/** The rows, on the node's own disk. */
export async function serveMetadata(host: NodeHost, address: string): Promise<Booted> {
  const { clock, metrics, checksum, log, transport } = host.env;
  const store = await host.openKeyValue("rows");
  const engine = new Engine({ store, clock, metrics, onFailed: (cause) => host.exit(cause.message) });
  const rows = new KeyValueMetadata({ store: engine, checksum, log });
  const unary = (served: MethodDescriptor, handle: (request: never) => Promise<object>): Parameters<Transport["serve"]>[1][number] => ({
    kind: "unary",
    method: served,
    handle: (request) => handle(request as never),
  });
  const listener = await transport.serve(address, [
    unary(READ, async ({ partition, keys }: { partition: string; keys: Uint8Array[] }) => ({
      rows: (await rows.read(partition, keys)).map(sent),
    })),
    unary(RANGE, async ({ partition, range }: { partition: string; range: MetadataRange }) => ({
      rows: await rows.range(partition, range),
    })),
    unary(COUNTERS, async ({ partition, key }: { partition: string; key: Uint8Array }) => ({
      counters: await rows.readCounters(partition, key),
    })),
    unary(COMMIT, (commit: WireCommit) => answerCommit(rows, commit)),
  ]);
  return {
    stop: async () => {
      await listener.drain(1_000);
      await engine.whenIdle();
      await store.close();
    },
  };
}

async function answerCommit(rows: ObjectMetadata, commit: WireCommit): Promise<WireOutcome> {
  const conditions = commit.conditions.map(({ key, version }) => ({ key, version: received(version) }));
  const outcome = await rows.commit({ ...commit, conditions });
  switch (outcome.kind) {
    case "committed":
      return outcome;
    case "conflict":
      return { kind: "conflict", rows: outcome.rows.map(sent) };
    case "unknown":
      return { kind: "unknown", reason: toConcordError(outcome.cause).message };
  }
}

/** A gateway's side. */
export class RemoteMetadata implements ObjectMetadata {
  readonly #channel: Channel;
  readonly #timeoutMs: number;

  constructor(transport: Transport, address: string, timeoutMs: number) {
    this.#channel = transport.connect(address);
    this.#timeoutMs = timeoutMs;
  }

  async read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    const { rows } = await this.#ask<{ rows: (MetadataRow | null)[] }>(READ, { partition, keys });
    return rows.map(received);
  }

  async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    return (await this.#ask<{ rows: MetadataRow[] }>(RANGE, { partition, range })).rows;
  }

  async readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    return (await this.#ask<{ counters: bigint[] }>(COUNTERS, { partition, key })).counters;
  }

  async commit(commit: MetadataCommit): Promise<MetadataOutcome> {
    const conditions = commit.conditions.map(({ key, version }) => ({ key, version: sent(version) }));
    try {
      const request = { ...commit, conditions };
      const outcome = (await this.#channel.unary(COMMIT, request, { timeoutMs: this.#timeoutMs })) as WireOutcome;
      if (outcome.kind === "conflict") return { kind: "conflict", rows: outcome.rows.map(received) };
      return outcome.kind === "committed" ? outcome : { kind: "unknown", cause: new ConcordError("STORE_FAILED", outcome.reason) };
    } catch (thrown) {
      const cause = toConcordError(thrown);
      if (cause.applied === "no") throw cause;
      return { kind: "unknown", cause };
    }
  }

  /** A read that got lost changed nothing. */
  async #ask<Answer>(asked: MethodDescriptor, request: object): Promise<Answer> {
    try {
      return (await this.#channel.unary(asked, request, { timeoutMs: this.#timeoutMs })) as Answer;
    } catch (thrown) {
      const { code, message } = toConcordError(thrown);
      throw new ConcordError(code, message, { applied: "no", cause: thrown });
    }
  }
}

export interface Doubts {
  /** Of so many commits one is answered "unknown" although the store is well. */
  readonly oneIn: number;
  readonly lateByMsMax: number;
  readonly isOver: () => boolean;
}

/** Now and then the answer to a commit is lost, or the commit itself comes late, after whatever was done about it. */
export function doubtful(metadata: ObjectMetadata, { clock, random }: Environment, { oneIn, lateByMsMax, isOver }: Doubts): ObjectMetadata {
  return {
    read: (partition, keys) => metadata.read(partition, keys),
    range: (partition, range) => metadata.range(partition, range),
    readCounters: (partition, key) => metadata.readCounters(partition, key),
    commit: async (commit) => {
      if (isOver() || random.below(oneIn) !== 0) return await metadata.commit(commit);
      const cause = new ConcordError("STORE_FAILED", "the answer was lost");
      if (random.below(2) === 0) await metadata.commit(commit).catch(() => undefined);
      else clock.setTimer(random.below(lateByMsMax), () => void metadata.commit(commit).catch(() => undefined));
      return { kind: "unknown", cause };
    },
  };
}
