// Where the ids of a seed's messages are: in their own field, in a header, in the key or in the JSON of the value, and what becomes of those without (DDD8).
import type { DedupWorkerConfig } from "@concord/dedup-worker";
import type { LogMessage, MessageInit } from "@concord/protos-dedup";
import type { Random } from "@concord/runtime";
import type { SeededRandom } from "@concord/simulation";

export interface IdPlan {
  readonly idSource: DedupWorkerConfig["idSource"];
  readonly missingId: DedupWorkerConfig["missingId"];
}

const HEADER = "event-id";
const LONG = "x".repeat(300);
/** Of messages: without an id. */
const NAMELESS_PERCENT = 12;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function drawIdPlan(random: SeededRandom): IdPlan {
  return {
    idSource: random.pick(["none", "none", `header:${HEADER}`, "key", "json:event.id", "json:event.id", "content"]),
    missingId: random.pick(["make", "pass", "hash", "dead-letter"]),
  };
}

/** What the pipeline does with a message whose id is not found: where the content is the id it compares by that. */
export function missingIn({ idSource, missingId }: IdPlan): IdPlan["missingId"] {
  return idSource === "content" ? "hash" : missingId;
}

export function isNameless(random: Random): boolean {
  return random.below(100) < NAMELESS_PERCENT;
}

/** Text of a value that is null, in this workload: no message has these bytes. */
const TOMBSTONE = "\u0000null";

/** Value of a message as text. */
export function textOf({ value, nullValue }: Pick<LogMessage, "value" | "nullValue">): string {
  return nullValue ? TOMBSTONE : decoder.decode(value);
}

export const isTombstone = (value: string): boolean => value === TOMBSTONE;

/** Value of the message with this id: the same each time that it is sent. A tenth of those whose value has no id are tombstones; which follows from the id. */
export function namedValue({ idSource }: IdPlan, random: Random, id: string, source: string): string {
  if (!idSource.startsWith("json:") && id.endsWith("3")) return TOMBSTONE;
  const text = `value of ${id}${source === "" ? "" : ` of ${source}`}`;
  return idSource.startsWith("json:") ? jsonWith(random, id, text) : text;
}

/** Half of the messages leave their id where the source says it is. */
export function namedMessage({ idSource }: IdPlan, random: Random, id: string, value: string): MessageInit {
  const message = isTombstone(value) ? { nullValue: true } : { value: encoder.encode(value) };
  if (random.below(2) === 0) return { ...message, id };
  if (idSource.startsWith("header:")) return { ...message, headers: [{ name: HEADER, value: encoder.encode(id) }] };
  if (idSource === "key") return { ...message, key: encoder.encode(id) };
  return idSource.startsWith("json:") ? message : { ...message, id };
}

/** No id is found in it; `name` is in the value of no other message. */
export function namelessValue({ idSource }: IdPlan, random: Random, name: string): string {
  if (!idSource.startsWith("json:")) return name;
  const withoutId = [
    name,
    `["${name}"]`,
    `{"name":"${name}"}`,
    `{"event":"${name}"}`,
    `{"event":{},"name":"${name}"}`,
    `{"event":{"id":{"id":"${name}"}}}`,
    `{"event":{"id":"","name":"${name}"}}`,
    `{"event":{"id":"${LONG}","name":"${name}"}}`,
    `{"event":{"id":"\\ud800","name":"${name}"}}`,
    `{"event":{"id":null,"name":"${name}"}}`,
    `{"name":"${name}" "event":{"id":"a"}}`,
    `{"name":"${name}","event":{"id":"a`,
  ];
  return withoutId[random.below(withoutId.length)]!;
}

export function namelessMessage({ idSource }: IdPlan, random: Random, value: string): MessageInit {
  const message = { value: encoder.encode(value) };
  if (!idSource.startsWith("header:") || random.below(2) === 0) return message;
  return { ...message, headers: [{ name: HEADER, value: encoder.encode(random.below(2) === 0 ? "" : LONG) }] };
}

/** Other members come first, with ids that are not at the path; letters are escaped, numbers are written as they are. */
function jsonWith(random: Random, id: string, text: string): string {
  const before = [
    `"id":"not-${id}"`,
    `"evens":{"id":"nor-${id}"}`,
    `"note":"a \\"} and {\\u0041"`,
    `"list":[{"event":{"id":"nor-that"}},-1.5e3,[],true]`,
    `"n":12`,
  ].filter(() => random.below(2) === 0);
  const isNumber = /^[1-9]\d*$/.test(id) && random.below(2) === 0;
  const written = isNumber ? id : `"${id.replaceAll(/./g, (letter) => (random.below(8) === 0 ? escaped(letter) : letter))}"`;
  const inner = random.below(2) === 0 ? `"of":{"id":"another"}, "id" : ${written}` : `"id":${written}`;
  const name = random.below(4) === 0 ? `\\u0065vent` : "event";
  return `{${[...before, `"${name}":{${inner}}`, `"text":"${text}"`].join(random.below(2) === 0 ? "," : " ,\n\t")}}`;
}

function escaped(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
