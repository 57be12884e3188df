// A node that keeps the rows of several gateways, spoken to over the simulated network: requests come late, answers get lost.
import { KeyValueMetadata } from "@concord/adapter-key-value-metadata";
import type { StoreLimits } from "@concord/store";
import { openSimulatedStore } from "../stores.ts";
import { Engine } from "@concord/engine";
import type { MetadataCommit, MetadataOutcome, MetadataRange, MetadataRow, ObjectMetadata } from "@concord/ports";
import {
  ConcordError,
  sleep,
  toConcordError,
  type Channel,
  type Environment,
  type MethodDescriptor,
  type Random,
  type Transport,
} from "@concord/runtime";
import type { Booted, NodeContext } from "@concord/simulation";

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

const LOST: WireOutcome = { kind: "unknown", reason: "it is on its way" };

const READ = method("Read");
const RANGE = method("Range");
const COUNTERS = method("Counters");
const COMMIT = method("Commit");

/** JSON has no undefined: absent rows travel as null. */
const sent = <Value>(value: Value | undefined): Value | null => value ?? null;
const received = <Value>(value: Value | null): Value | undefined => value ?? undefined;

type WireCondition = { readonly key: Uint8Array; readonly version: MetadataRow["version"] | null };
/** `lateByMs`: it lies about in the store for so long, whatever becomes of who sent it. */
type WireCommit = Omit<MetadataCommit, "conditions"> & { readonly conditions: readonly WireCondition[]; readonly lateByMs: number };
type WireOutcome =
  | { readonly kind: "committed" }
  | { readonly kind: "conflict"; readonly rows: readonly (MetadataRow | null)[] }
  | { readonly kind: "unknown"; readonly reason: string };

/** The rows, on the node's own disk. */
export async function serveMetadata(context: NodeContext, address: string, limits: Partial<StoreLimits>): Promise<Booted> {
  const { clock, metrics, checksum, log, transport } = context.env;
  const store = await openSimulatedStore(context, "rows", limits);
  const engine = new Engine({ store, clock, metrics, onFailed: (cause) => context.exit(cause.message) });
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
    unary(COMMIT, async (commit: WireCommit) => {
      if (commit.lateByMs > 0) await sleep(clock, commit.lateByMs);
      return await answerCommit(rows, commit);
    }),
  ]);
  return {
    stop: async () => {
      await listener.drain(1_000);
      await engine.whenIdle();
      await store.close();
    },
  };
}

async function answerCommit(rows: ObjectMetadata, { partition, writes, ...wire }: WireCommit): Promise<WireOutcome> {
  const conditions = wire.conditions.map(({ key, version }) => ({ key, version: received(version) }));
  const outcome = await rows.commit({ partition, writes, conditions });
  switch (outcome.kind) {
    case "committed":
      return outcome;
    case "conflict":
      return { kind: "conflict", rows: outcome.rows.map(sent) };
    case "unknown":
      return { kind: "unknown", reason: toConcordError(outcome.cause).message };
  }
}

export interface RemoteOptions {
  readonly address: string;
  readonly timeoutMs: number;
  /** Of so many commits one is left indeterminate for no reason: its answer is lost, or it comes late, after whatever was done about it. 0: none. */
  readonly doubtOneIn: number;
  readonly lateByMsMax: number;
  readonly isHealed: () => boolean;
}

/** A gateway's side. */
export class RemoteMetadata implements ObjectMetadata {
  readonly #channel: Channel;
  readonly #random: Random;
  readonly #options: RemoteOptions;

  constructor({ transport, random }: Environment, options: RemoteOptions) {
    this.#channel = transport.connect(options.address);
    this.#random = random;
    this.#options = options;
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
    const { timeoutMs, doubtOneIn, lateByMsMax, isHealed } = this.#options;
    const conditions = commit.conditions.map(({ key, version }) => ({ key, version: sent(version) }));
    const isDoubtful = doubtOneIn > 0 && !isHealed() && this.#random.below(doubtOneIn) === 0;
    const lateByMs = isDoubtful && this.#random.below(2) === 0 ? 1 + this.#random.below(lateByMsMax) : 0;
    const asked = this.#channel.unary(COMMIT, { ...commit, conditions, lateByMs }, { timeoutMs: timeoutMs + lateByMs });
    try {
      if (lateByMs > 0) asked.catch(() => undefined);
      const outcome = lateByMs > 0 ? LOST : ((await asked) as WireOutcome);
      if (isDoubtful || outcome.kind === "unknown")
        return { kind: "unknown", cause: new ConcordError("STORE_FAILED", "the answer was lost") };
      return outcome.kind === "conflict" ? { kind: "conflict", rows: outcome.rows.map(received) } : outcome;
    } catch (thrown) {
      const cause = toConcordError(thrown);
      if (cause.applied === "no") throw cause;
      return { kind: "unknown", cause };
    }
  }

  /** A read that got lost changed nothing. */
  async #ask<Answer>(asked: MethodDescriptor, request: object): Promise<Answer> {
    try {
      return (await this.#channel.unary(asked, request, { timeoutMs: this.#options.timeoutMs })) as Answer;
    } catch (thrown) {
      const { code, message } = toConcordError(thrown);
      throw new ConcordError(code, message, { applied: "no", cause: thrown });
    }
  }
}
