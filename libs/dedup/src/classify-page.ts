import type { LogMessage, NewMessage, Publication } from "@concord/ports";
import { assert, unreachable } from "@concord/runtime";
import type { MessageId } from "./extract-id.ts";
import { IdTable } from "./id-table.ts";
import { ID_WORDS } from "./id-words.ts";
import { withOrigin } from "./origin.ts";
import { countsBySource } from "./source-figures.ts";
import type { OutputIds } from "./window.ts";
import type { CountsBySource, InputResult } from "./api.ts";

export type ResultKind = InputResult["kind"];

/** What the processing loop compares a message by, and where it belongs. */
export type ReadId = MessageId | { readonly kind: "misrouted"; readonly partition: number };

/** A page of the input with what the window says about its ids. */
export interface PreparedPage {
  /** Where it was read from, and where to read on. */
  readonly from: bigint;
  readonly next: bigint;
  readonly messages: readonly LogMessage[];
  readonly ids: readonly ReadId[];
  /** Packed ids, four words per message; zeros where there is none. */
  readonly words: Uint32Array;
  /** 1 = the id is in the window. */
  readonly known: Uint8Array;
}

/** A page with its results: what is published, and what the window and the waiters learn from it. */
export interface ClassifiedPage {
  readonly from: bigint;
  readonly next: bigint;
  readonly publication: Publication;
  /** Per message: input offset, result, and its position among the messages of that result, or its right partition. */
  readonly offsets: readonly bigint[];
  readonly kinds: readonly ResultKind[];
  readonly bySource: CountsBySource;
  readonly positions: Uint32Array;
  /** The ids it publishes: what the next page, looked up meanwhile, is compared with too. */
  readonly fresh: IdTable;
  /** Position in the output of each id of `fresh`. */
  readonly freshPositions: readonly number[];
  readonly publishedMs: number;
}

/**
 * The result of each message: known to the window, to the page before, which is not in the window yet, or to this page (DDD7) is a
 * duplicate; what belongs elsewhere is sent there in the same publication (DDD3).
 */
export function classifyPage(page: PreparedPage, before: IdTable | undefined, publishedMs: number, seed: number): ClassifiedPage {
  const { length } = page.messages;
  assert(page.ids.length === length && page.known.length === length, "a page has an id and a look-up for each message");
  assert(page.words.length === length * ID_WORDS, "a page has the words of each message's id");
  const isWithin = length === 0 || (page.messages[0]!.offset >= page.from && page.messages[length - 1]!.offset < page.next);
  assert(isWithin, "DD4: a page acknowledges the messages that it has, and no others");
  const fresh = new IdTable(seed, length);
  const freshPositions: number[] = [];
  const output: NewMessage[] = [];
  const deadLetters: NewMessage[] = [];
  const rerouted: { readonly partition: number; readonly message: NewMessage }[] = [];
  const kinds: ResultKind[] = [];
  const positions = new Uint32Array(length);
  for (const [index, message] of page.messages.entries()) {
    const id = page.ids[index]!;
    const at = index * ID_WORDS;
    if (id.kind === "misrouted") {
      positions[index] = id.partition;
      rerouted.push({ partition: id.partition, message: bare(message) });
      kinds.push("rerouted");
    } else if (id.kind === "dead-letter") {
      positions[index] = deadLetters.push(withOrigin(message, id, message.offset, publishedMs)) - 1;
      kinds.push("dead-lettered");
    } else if (id.kind === "none") {
      positions[index] = output.push(withOrigin(message, id, message.offset, publishedMs)) - 1;
      kinds.push("accepted");
    } else if (page.known[index] === 1 || before?.has(page.words, at) === true || !fresh.add(page.words, at)) {
      kinds.push("duplicate");
    } else {
      positions[index] = output.push(withOrigin(message, id, message.offset, publishedMs)) - 1;
      freshPositions.push(positions[index]!);
      kinds.push("accepted");
    }
  }
  assert(kinds.length === length, "DD4: every message has one result");
  assert(fresh.count === freshPositions.length, "each new id has its place in the output");
  const publication = { output, deadLetters, rerouted, acknowledgedInput: page.next };
  const offsets = page.messages.map((message) => message.offset);
  const bySource = countsBySource(page.messages, kinds);
  return { from: page.from, next: page.next, publication, offsets, kinds, bySource, positions, fresh, freshPositions, publishedMs };
}

/** What the window applies once the page is published from `outputFrom` on. */
export function publishedIds(classified: ClassifiedPage, outputFrom: bigint): OutputIds {
  const { output } = classified.publication;
  assert((classified.freshPositions.at(-1) ?? -1) < output.length, "DDD2: an id that is applied is of a message that was published");
  return {
    next: outputFrom + BigInt(output.length),
    ids: classified.fresh.words,
    offsets: classified.freshPositions.map((position) => outputFrom + BigInt(position)),
    publishedMs: classified.freshPositions.map(() => classified.publishedMs),
  };
}

export function countKinds(classified: ClassifiedPage): Readonly<Record<ResultKind, number>> {
  const counts = { accepted: 0, duplicate: 0, "dead-lettered": 0, rerouted: 0 };
  for (const kind of classified.kinds) {
    switch (kind) {
      case "accepted":
      case "duplicate":
      case "dead-lettered":
      case "rerouted":
        counts[kind] += 1;
        break;
      default:
        unreachable(kind);
    }
  }
  return counts;
}

function bare({ key, value, headers, timestampMs }: LogMessage): NewMessage {
  return { key, value, headers, timestampMs };
}
