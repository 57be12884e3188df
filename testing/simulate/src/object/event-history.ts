// Events of the bucket: a target that is away, slow and loses its answers, and what must have come out of it when all is quiet.
import type { EventTarget } from "@concord/objects";
import type { MessageSink, SinkAnswer, SinkMessage } from "@concord/ports";
import { ConcordError, sleep, type Environment } from "@concord/runtime";
import type { SeededRandom, World } from "@concord/simulation";
import { ACCESS_KEY, tagged, type S3Answer, type S3Request } from "./s3-client.ts";
import type { MadeVersion } from "./version-history.ts";

const TARGET: EventTarget = { tenant: ACCESS_KEY.tenant, target: "events" };
const SLOW_MS_MAX = 30;
const AWAY_PERCENT = 15;
const LOST_PERCENT = 25;
const OPEN_PERCENT = 10;

export const EVENT_CONFIG = { eventTargets: [{ name: TARGET.target, tenant: TARGET.tenant, workers: ["events:7000"] }] };
const EVENT_KINDS = ["ObjectCreated", "ObjectRemoved", "LifecycleExpiration", "ObjectTagging"];
export const EVENT_RULES =
  `<NotificationConfiguration><QueueConfiguration><Queue>arn:aws:sqs::${TARGET.tenant}:${TARGET.target}</Queue>` +
  `${EVENT_KINDS.map((kind) => `<Event>s3:${kind}:*</Event>`).join("")}</QueueConfiguration></NotificationConfiguration>`;

interface SeenEvent {
  readonly name: string;
  readonly key: string;
  readonly etag: string | undefined;
  readonly versionId: string;
  readonly sequencer: string;
}

/** What the judge reads of the bucket when all is quiet. */
export interface BucketNow {
  readonly listed: ReadonlyMap<string, string>;
  readonly versions: readonly MadeVersion[];
  /** Of these versions were removed, so that others came to the front. */
  readonly promoted: readonly string[];
}

/** One for all gateways: it takes each id once, for ever. */
export class EventHistory {
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #ids = new Set<string>();
  readonly #events: SeenEvent[] = [];
  /** By the request that made it. */
  readonly #byRequest = new Map<string, SeenEvent>();
  /** Requests that were answered: done, each one change; or refused. */
  readonly #done = new Map<string, string>();
  readonly #refused = new Map<string, string>();
  /** Key and ETag of what clients were shown: also of writes whose answer was lost. */
  readonly #shown = new Map<string, { readonly key: string; readonly etag: string }>();

  constructor(world: World) {
    this.#world = world;
    this.#random = world.random("event target");
  }

  /** As one gateway reaches it. */
  sinkFor(env: Environment): MessageSink & { close(): Promise<void> } {
    return { send: (messages) => this.#send(env, messages), close: () => Promise.resolve() };
  }

  async #send({ clock }: Environment, messages: readonly SinkMessage[]): Promise<readonly SinkAnswer[]> {
    const dice = this.#world.isHealed ? 100 : this.#random.below(100);
    await sleep(clock, this.#random.below(SLOW_MS_MAX));
    if (dice < AWAY_PERCENT) throw new ConcordError("CONNECTION_LOST", "the target is away", { applied: "no" });
    if (dice < AWAY_PERCENT + OPEN_PERCENT) return messages.map(() => "open");
    const answers = messages.map((message) => this.#take(message));
    await sleep(clock, this.#random.below(SLOW_MS_MAX));
    if (dice < AWAY_PERCENT + OPEN_PERCENT + LOST_PERCENT)
      throw new ConcordError("CONNECTION_LOST", "the answer was lost", { applied: "unknown" });
    return answers;
  }

  #take({ id, value }: SinkMessage): SinkAnswer {
    if (this.#ids.has(id)) {
      this.#world.count("object:events-duplicate", 1);
      return "duplicate";
    }
    this.#ids.add(id);
    const { Records: [record] = [] } = JSON.parse(Buffer.from(value).toString()) as { Records?: readonly S3Record[] };
    if (record !== undefined) this.#came(record);
    return "accepted";
  }

  #came({ eventName: name, responseElements, s3 }: S3Record): void {
    const { key, eTag: etag, versionId = "null", sequencer } = s3.object;
    const event = { name, key: decodeURIComponent(key.replaceAll("+", "%20")), etag, versionId, sequencer };
    this.#events.push(event);
    this.#world.count("object:events", 1);
    // Lifecycle rules and deletes that a start does again have no request.
    const request = responseElements["x-amz-request-id"];
    if (request === "") return;
    const earlier = this.#byRequest.get(request);
    if (earlier !== undefined) this.#world.violation("announced twice", `${textOf(earlier)}, then ${textOf(event)} of one request`);
    this.#byRequest.set(request, event);
  }

  /** Of a client's request. A delete of what is not there is done, too, and a complete may answer for an earlier one: neither must have an event. */
  answered({ method, key, query = {} }: S3Request, { status, headers, body }: S3Answer): void {
    const request = headers.get("x-amz-request-id");
    if (request === undefined || key === undefined) return;
    if (method === "GET" && (status === 200 || status === 206)) this.shown(key, headers.get("etag"));
    const text = `${method} ${key}`;
    if (status >= 400 && status < 500) this.#refused.set(request, text);
    const isStored = headers.has("etag") || tagged(body, "ETag").length > 0;
    if (status === 200 && method === "PUT" && Object.keys(query).length === 0 && isStored) this.#done.set(request, text);
  }

  shown(key: string, etag: string | undefined): void {
    if (etag === undefined) return;
    const shown = { key, etag: etag.replaceAll('"', "") };
    this.#shown.set(`${key} ${shown.etag}`, shown);
  }

  /** When all is quiet. Whether everything that must be announced is; what must not be is a violation. Throws while something is missing. */
  judge({ listed, versions, promoted }: BucketNow): true {
    for (const [request, text] of this.#refused) {
      const event = this.#byRequest.get(request);
      if (event !== undefined) this.#world.violation("announced though refused", `${text}: ${textOf(event)}`);
    }
    for (const [request, text] of this.#done) if (!this.#byRequest.has(request)) throw new Error(`${text} was done, and has no event`);
    for (const { key, etag } of this.#shown.values()) {
      if (!this.#events.some((event) => event.key === key && event.etag === etag && isCreated(event)))
        throw new Error(`${key} showed ${etag}, which has no event`);
    }
    for (const { key, id, etag } of versions) {
      const isIt = (event: SeenEvent): boolean => event.key === key && event.etag === etag && event.versionId === id && isCreated(event);
      if (!this.#events.some(isIt)) throw new Error(`${key} has version ${id} with ${etag}, which has no event`);
    }
    for (const key of new Set(this.#events.map((event) => event.key))) if (!promoted.includes(key)) this.#judgeLast(key, listed.get(key));
    return true;
  }

  /** The event with the greatest sequencer says what the key shows now. */
  #judgeLast(key: string, etag: string | undefined): void {
    const sequencerOf = ({ sequencer }: SeenEvent): string => sequencer;
    const events = this.#events.filter((event) => event.key === key);
    if (new Set(events.map(sequencerOf)).size !== events.length) this.#world.violation("one sequencer twice", key);
    const last = events.toSorted((one, other) => (sequencerOf(one) < sequencerOf(other) ? -1 : 1)).at(-1)!;
    if (last.etag !== etag) throw new Error(`${key} shows ${etag ?? "nothing"}, its last event is ${textOf(last)}`);
  }
}

interface S3Record {
  readonly eventName: string;
  readonly responseElements: { readonly "x-amz-request-id": string };
  readonly s3: {
    readonly object: { readonly key: string; readonly eTag?: string; readonly versionId?: string; readonly sequencer: string };
  };
}

const isCreated = ({ name }: SeenEvent): boolean => name.startsWith("ObjectCreated:");
const textOf = ({ name, key, etag, versionId, sequencer }: SeenEvent): string => `${name} ${key} ${etag ?? "-"} ${versionId} ${sequencer}`;
