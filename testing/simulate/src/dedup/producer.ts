// Producers that send again until they get a result (DD1), and now and then much later; a consumer that reads along.
import {
  IngestService,
  OutputService,
  WindowService,
  type IngestRequestInit,
  type LogMessage,
  type ReadRequestInit,
} from "@concord/protos-dedup";
import { callUnary } from "@concord/rpc";
import { ConcordError, sleep, toConcordError, type Channel, type Environment } from "@concord/runtime";
import type { World } from "@concord/simulation";
import { isNameless, namedMessage, namedValue, namelessMessage, namelessValue, type IdPlan } from "./message-forms.ts";
import { MessageHistory, type SentMessage } from "./message-history.ts";

const BATCH_MAX = 25;
const TRIES_MAX = 12;
const TRY_AGAIN_MS = 60;
/** Of messages: sent before, by any producer. */
const AGAIN_PERCENT = 40;
const PAGE = 500;

/** Ids that all producers share: what one sent, another sends again. */
export class IdPool {
  readonly #ids: string[] = [];
  readonly #nameless: string[] = [];
  #made = 0;

  fresh({ random }: Environment): string {
    this.#made += 1;
    const number = String(this.#made).padStart(12, "0");
    const ids = [`0a0b0c0d-1e1f-4a4b-8c8d-${number}`, `event-${number}`, `7${number}`];
    const id = ids[random.below(4) % ids.length]!;
    this.#ids.push(id);
    return id;
  }

  /** The value of a message without an id: a new one, or of one that was sent before. */
  nameless({ random }: Environment, ids: IdPlan): string {
    const before = this.#nameless.length;
    if (before > 0 && random.below(100) < AGAIN_PERCENT) return this.#nameless[before - 1 - random.below(Math.min(before, 20))]!;
    this.#made += 1;
    const value = namelessValue(ids, random, `nameless-${this.#made}`);
    this.#nameless.push(value);
    return value;
  }

  /** Mostly one of the newest: a retry; sometimes one of long ago: the window's edge. UUIDs in another case. */
  again(env: Environment): string {
    const back = env.random.below(3) === 0 ? this.#ids.length : Math.min(this.#ids.length, 60);
    const id = this.#ids[this.#ids.length - 1 - env.random.below(back)]!;
    return id.startsWith("0a") && env.random.below(2) === 0 ? id.toUpperCase() : id;
  }

  get isEmpty(): boolean {
    return this.#ids.length === 0;
  }
}

export interface ProducerOptions {
  readonly world: World;
  readonly env: Environment;
  readonly history: MessageHistory;
  readonly pool: IdPool;
  /** Of all workers: each takes messages of all partitions. */
  readonly addresses: readonly string[];
  readonly timeoutMs: number;
  /** Of its batches, in turn: all sources share their ids, as producers that know nothing of each other may. */
  readonly sources: readonly string[];
  readonly ids: IdPlan;
  /** Nothing but planned stops and starts goes on: calls go to workers that serve and do not stop, and none of them may fail. */
  readonly calm?: { readonly isServing: (address: string) => boolean };
}

export class Producer {
  readonly #options: ProducerOptions;
  readonly #channels: readonly Channel[];
  #batches = 0;

  constructor(options: ProducerOptions) {
    this.#options = options;
    this.#channels = options.addresses.map((address) => options.env.transport.connect(address));
  }

  /** One batch, sent again until it has results, at most TRIES_MAX times. */
  async send(): Promise<void> {
    const { env, history, sources, world } = this.#options;
    const source = sources[this.#batches % sources.length]!;
    this.#batches += 1;
    const batch = this.#batch(source);
    const acknowledge = env.random.below(5) === 0 ? "ACKNOWLEDGE_INPUT" : "ACKNOWLEDGE_OUTPUT";
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      world.callsInFlight += 1;
      const outcome = await this.#try(batch, { messages: batch.map(({ message }) => message), acknowledge, source });
      world.callsInFlight -= 1;
      if (outcome === "ok") {
        history.outcomes.ok += 1;
        return;
      }
      await sleep(env.clock, env.random.below(TRY_AGAIN_MS) + 1);
    }
    history.outcomes.info += 1;
  }

  #batch(source: string): SentMessage[] {
    const { env, history } = this.#options;
    return Array.from({ length: 1 + env.random.below(BATCH_MAX) }, () => {
      const sent = isNameless(env.random) ? this.#nameless(source) : this.#named(source);
      history.sending(sent);
      return sent;
    });
  }

  #named(source: string): SentMessage {
    const { env, history, pool, ids } = this.#options;
    const id = !pool.isEmpty && env.random.below(100) < AGAIN_PERCENT ? pool.again(env) : pool.fresh(env);
    const value = history.valueOf({ source, id }) ?? namedValue(ids, env.random, id, source);
    return { source, id, value, message: namedMessage(ids, env.random, id, value) };
  }

  #nameless(source: string): SentMessage {
    const { env, pool, ids } = this.#options;
    const value = pool.nameless(env, ids);
    return { source, id: "", value, message: namelessMessage(ids, env.random, value) };
  }

  async #try(batch: readonly SentMessage[], request: IngestRequestInit): Promise<"ok" | "again"> {
    const { addresses, calm, env, history, world, timeoutMs } = this.#options;
    const candidates = calm === undefined ? addresses : addresses.filter(calm.isServing);
    if (candidates.length === 0) return "again";
    const address = candidates[candidates.length === 1 ? 0 : env.random.below(candidates.length)]!;
    const channel = this.#channels[addresses.indexOf(address)]!;
    try {
      const { results } = await callUnary(channel, IngestService.methods.Ingest, request, { timeoutMs });
      for (const [at, result] of results.entries()) history.told(batch[at]!, result);
      return "ok";
    } catch (thrown) {
      const { code, message } = toConcordError(thrown);
      if (code === "INTERNAL" || code === "CORRUPT_DATA") world.violation("client error", message);
      world.count(`client-error:${code}`);
      if (calm?.isServing(address) === true)
        world.violation("hand-over", `a call at ${address}, which serves on, failed: ${code}: ${message}`);
      return "again";
    }
  }
}

/** Reads a partition's output, a page at a time, at the worker that owns it. */
export class Consumer {
  readonly #env: Environment;
  readonly #channels: ReadonlyMap<string, Channel>;
  readonly #options: { readonly timeoutMs: number };
  /** By partition, as refusals name them. */
  readonly #owners = new Map<number, string>();

  constructor(env: Environment, addresses: readonly string[], timeoutMs: number) {
    this.#env = env;
    this.#channels = new Map(addresses.map((address) => [address, env.transport.connect(address)]));
    this.#options = { timeoutMs };
  }

  async read(
    partition: number,
    from: bigint,
    topic: "TOPIC_OUTPUT" | "TOPIC_DEAD_LETTERS" = "TOPIC_OUTPUT",
  ): Promise<{ readonly messages: readonly LogMessage[]; readonly next: bigint }> {
    const request: ReadRequestInit = { topic, partition, fromOffset: from, maxMessages: PAGE };
    const known = this.#owners.get(partition);
    const channel = known === undefined ? this.#any() : this.#channels.get(known)!;
    try {
      const page = await callUnary(channel, OutputService.methods.Read, request, this.#options);
      return { messages: page.messages, next: page.nextOffset };
    } catch (thrown) {
      const { code, metadata } = toConcordError(thrown);
      const owner = code === "NOT_OWNER" ? metadata["address"] : undefined;
      if (owner === undefined) this.#owners.delete(partition);
      else this.#owners.set(partition, owner);
      throw thrown;
    }
  }

  async readAll(partition: number, topic?: "TOPIC_OUTPUT" | "TOPIC_DEAD_LETTERS"): Promise<readonly LogMessage[]> {
    const all: LogMessage[] = [];
    let from = 0n;
    for (;;) {
      const { messages, next } = await this.read(partition, from, topic);
      if (messages.length === 0) return all;
      all.push(...messages);
      from = next;
    }
  }

  /** How much input is not processed, over all `count` partitions; throws while one of them does not run, or runs twice. */
  async lag(count: number): Promise<bigint> {
    const answers = await Promise.all(
      [...this.#channels.values()].map((channel) => callUnary(channel, WindowService.methods.GetStatistics, {}, this.#options)),
    );
    const partitions = answers.flatMap((answer) => answer.partitions);
    const idle = partitions.find(({ state }) => state !== "PARTITION_STATE_RUNNING");
    if (idle !== undefined) throw new ConcordError("STARTING", `a partition is ${idle.state}`);
    if (partitions.length !== count) throw new ConcordError("STARTING", `${partitions.length} of ${count} partitions run`);
    return partitions.reduce((sum, { lag }) => sum + lag, 0n);
  }

  async seen(source: string, ids: readonly string[]): Promise<readonly boolean[]> {
    return (await callUnary(this.#any(), WindowService.methods.Seen, { ids, source }, this.#options)).seen;
  }

  #any(): Channel {
    const channels = [...this.#channels.values()];
    return channels[channels.length === 1 ? 0 : this.#env.random.below(channels.length)]!;
  }
}
