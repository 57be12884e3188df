import { messageBytes, type LogMessage, type MessageLog } from "@concord/ports";
import { assert } from "@concord/runtime";
import type { IdHash, WorkerOptions } from "./api.ts";
import { SOURCE_BYTES_MAX } from "./limits.ts";
import { idExtractor, type ExtractId } from "./extract-id.ts";
import { ID_WORDS, idKeys, packContent, packGiven, type IdKeys } from "./id-words.ts";
import type { PreparedPage, ReadId } from "./classify-page.ts";
import { partitionOfContent, partitionOfId } from "./murmur2.ts";
import { headerOf, ID_HEADER, readStoredOrigin, SOURCE_HEADER } from "./origin.ts";
import { SourceMasks } from "./source-masks.ts";
import type { OutputIds, Window } from "./window.ts";

const utf8 = new TextEncoder();

/** Finds and packs the ids of messages, each as one of its source (DDD13), with one window's key. */
export class IdReader {
  readonly #partition: number;
  readonly #partitions: number;
  readonly #extract: ExtractId;
  readonly #makes: boolean;
  readonly #keys: IdKeys;
  readonly #hash: IdHash;
  readonly #masks: SourceMasks;

  constructor(options: WorkerOptions, partitions: number, idKey: Uint8Array, hash: IdHash) {
    this.#partition = options.partition;
    this.#partitions = partitions;
    this.#extract = idExtractor(options.idSources, options.missingId);
    this.#makes = options.missingId === "make";
    this.#keys = idKeys(idKey);
    this.#hash = hash;
    this.#masks = new SourceMasks(this.#keys, hash);
  }

  /** Ids of the input, checked to belong here (DDD3). */
  readInput(messages: readonly LogMessage[]): { readonly ids: readonly ReadId[]; readonly words: Uint32Array } {
    const words = new Uint32Array(messages.length * ID_WORDS);
    const ids = messages.map((message, index): ReadId => {
      const id = this.#extract(message);
      if (id.kind === "none" && this.#makes) return { kind: "none", made: utf8.encode(`${this.#partition}-${message.offset}`) };
      if (id.kind === "none" || id.kind === "dead-letter") return id;
      const partition = id.kind === "given" ? partitionOfId(id.id, this.#partitions) : partitionOfContent(message.value, this.#partitions);
      if (partition !== this.#partition) return { kind: "misrouted", partition };
      const source = headerOf(message, SOURCE_HEADER);
      if (source !== undefined && source.length > SOURCE_BYTES_MAX)
        return { kind: "dead-letter", reason: `the source has more than ${SOURCE_BYTES_MAX} bytes` };
      if (id.kind === "given") packGiven(id.id, this.#keys, this.#hash, words, index * ID_WORDS);
      else packContent(message.value, this.#keys, this.#hash, words, index * ID_WORDS);
      this.#masks.apply(source, words, index * ID_WORDS);
      return id;
    });
    return { ids, words };
  }

  /** Ids of the output, by the headers this pipeline left. `foreign` counts messages without. */
  readOutput(messages: readonly LogMessage[], next: bigint): OutputIds & { readonly foreign: number } {
    const words = new Uint32Array(messages.length * ID_WORDS);
    const offsets: bigint[] = [];
    const publishedMs: number[] = [];
    let foreign = 0;
    for (const message of messages) {
      const origin = readStoredOrigin(message);
      const id = origin?.kind === "given" ? headerOf(message, ID_HEADER) : undefined;
      const at = offsets.length * ID_WORDS;
      if (origin === undefined) foreign += 1;
      if (id !== undefined) packGiven(id, this.#keys, this.#hash, words, at);
      else if (origin?.kind === "content") packContent(message.value, this.#keys, this.#hash, words, at);
      else continue;
      this.#masks.apply(headerOf(message, SOURCE_HEADER), words, at);
      offsets.push(message.offset);
      publishedMs.push(origin!.publishedMs);
    }
    return { next, ids: words.subarray(0, offsets.length * ID_WORDS), offsets, publishedMs, foreign };
  }

  packGivenIds(ids: readonly Uint8Array[], source: Uint8Array | undefined): Uint32Array {
    const words = new Uint32Array(ids.length * ID_WORDS);
    for (const [index, id] of ids.entries()) {
      packGiven(id, this.#keys, this.#hash, words, index * ID_WORDS);
      this.#masks.apply(source, words, index * ID_WORDS);
    }
    return words;
  }
}

/** The next page that has messages, its ids looked up; waits for one. Undefined: aborted. */
export async function readPage(
  log: MessageLog,
  options: WorkerOptions,
  window: Window,
  reader: IdReader,
  from: bigint,
  signal: AbortSignal,
): Promise<PreparedPage | undefined> {
  let at = from;
  while (!signal.aborted) {
    const { messages, next } = await log.read("input", options.partition, at, options.page);
    if (messages.length > 0) {
      const { ids, words } = reader.readInput(messages);
      return { from: at, next, messages, ids, words, known: await window.lookUp(words) };
    }
    if (next === at) await log.whenBeyond("input", options.partition, at, signal);
    at = next;
  }
  return undefined;
}

/** With what came since the page was read, where the log knows of that by itself: one publish, not two. */
export async function toppedUp(
  page: PreparedPage,
  log: MessageLog,
  { partition, page: limits }: WorkerOptions,
  window: Window,
  reader: IdReader,
): Promise<PreparedPage> {
  const end = log.inputEnd?.(partition) ?? page.next;
  const bytes = limits.bytes - page.messages.reduce((sum, message) => sum + messageBytes(message), 0);
  const count = limits.messages - page.messages.length;
  if (end <= page.next || count <= 0 || bytes <= 0) return page;
  const { messages, next } = await log.read("input", partition, page.next, { messages: count, bytes });
  assert(next >= page.next, "a page goes on behind the one before it");
  assert(messages.length === 0 || messages[0]!.offset >= page.next, "DD4: what is added to a page is none of it");
  assert(page.messages.length + messages.length <= limits.messages, "DD6: a page that is added to keeps its limit");
  const { ids, words } = reader.readInput(messages);
  const known = await window.lookUp(words);
  return {
    from: page.from,
    next,
    messages: [...page.messages, ...messages],
    ids: [...page.ids, ...ids],
    words: joined(new Uint32Array(page.words.length + words.length), page.words, words),
    known: joined(new Uint8Array(page.known.length + known.length), page.known, known),
  };
}

function joined<Numbers extends Uint8Array | Uint32Array>(into: Numbers, first: Numbers, second: Numbers): Numbers {
  into.set(first);
  into.set(second, first.length);
  return into;
}
