// Messages by source and result. Names of sources come from producers: those beyond a limit are counted together.
import type { LogMessage } from "@concord/ports";
import { assert, type Metrics } from "@concord/runtime";
import type { CountsBySource, InputResult } from "./api.ts";
import { SOURCE_BYTES_MAX, SOURCE_FIGURES_MAX } from "./limits.ts";
import { headerOf, SOURCE_HEADER } from "./origin.ts";

/** Names under which messages without a source, and those of sources beyond the limit, are counted: no request can name a source so. */
export const NO_SOURCE = "(none)";
export const OTHER_SOURCES = "(others)";
/** Producers of Kafka's input may write any bytes; a label has these. */
const NAME = /^[A-Za-z0-9_.@-]{1,64}$/;

export function countsBySource(messages: readonly LogMessage[], kinds: readonly InputResult["kind"][]): CountsBySource {
  assert(kinds.length === messages.length, "each message of a page is counted by its own result");
  const all = new Map<string, { accepted: number; duplicate: number; "dead-lettered": number }>();
  for (const [index, message] of messages.entries()) {
    const kind = kinds[index]!;
    if (kind === "rerouted") continue;
    const name = nameOf(headerOf(message, SOURCE_HEADER));
    let counts = all.get(name);
    if (counts === undefined) all.set(name, (counts = { accepted: 0, duplicate: 0, "dead-lettered": 0 }));
    counts[kind] += 1;
  }
  return all;
}

function nameOf(source: Uint8Array | undefined): string {
  if (source === undefined || source.length === 0) return NO_SOURCE;
  const name = source.length > SOURCE_BYTES_MAX ? "" : String.fromCharCode(...source);
  return NAME.test(name) ? name : OTHER_SOURCES;
}

/** Figures of all partitions of one process: the first sources have their own, those of the configuration before all others. */
export class SourceFigures {
  readonly #metrics: Pick<Metrics, "count">;
  readonly #named: Set<string>;

  constructor(metrics: Pick<Metrics, "count">, configured: readonly string[]) {
    this.#metrics = metrics;
    this.#named = new Set(configured.filter((name) => NAME.test(name)).slice(0, SOURCE_FIGURES_MAX));
  }

  add(counts: CountsBySource): void {
    for (const [name, ofSource] of counts) {
      assert(name.length > 0, "DDD13: messages without a source are counted under a name of their own");
      const source = this.#labelOf(name);
      for (const [result, count] of Object.entries(ofSource))
        if (count > 0) this.#metrics.count("dedup_source_messages_total", count, { source, verdict: result });
    }
  }

  #labelOf(name: string): string {
    if (name === NO_SOURCE || name === OTHER_SOURCES || this.#named.has(name)) return name;
    if (this.#named.size >= SOURCE_FIGURES_MAX) return OTHER_SOURCES;
    this.#named.add(name);
    assert(this.#named.size <= SOURCE_FIGURES_MAX, "the number of sources with figures of their own is bounded");
    return name;
  }
}
