import { salvageJournal, type JournalOptions, type LostSpan, type Salvaged } from "@concord/journal";
import type { LogTopic } from "@concord/ports";
import { decodePublication, encodeMessages, encodePublication } from "./format.ts";
import { acknowledgedBy } from "./acknowledged.ts";

export interface SalvagedTopic extends Salvaged {
  /** Lost offsets that count: of the input those that were not processed yet, of the other topics all. */
  readonly missed: readonly LostSpan[];
}

/** The folder of a topic that a repair has made anew and not put in place yet: its partition does not open meanwhile. */
export const MENDED_SUFFIX = ".mended";

/**
 * Copies the sound records of one topic's journal to `target`; offsets that are lost hold no message from then on. `output`: the journal of the same partition's output, whose
 * newest record says which input is processed.
 */
export async function salvageTopic(
  topic: LogTopic,
  source: JournalOptions,
  output: JournalOptions,
  target: Pick<JournalOptions, "disk" | "folder">,
): Promise<SalvagedTopic> {
  const salvaged = await salvageJournal(source, target, topic === "output" ? noPublication : () => encodeMessages([]));
  const processed = topic === "input" ? ((await acknowledgedBy(output)) ?? 0n) : 0n;
  const missed = salvaged.lost.flatMap(({ from, to }) => (to <= processed ? [] : [{ from: from < processed ? processed : from, to }]));
  return { ...salvaged, missed };
}

/** Nothing published: what the record before it acknowledged. */
function noPublication(before: Uint8Array | undefined): Uint8Array {
  const { publication, acknowledgedInput, writtenAtMs } =
    before === undefined ? { publication: 0n, acknowledgedInput: 0n, writtenAtMs: 0 } : decodePublication(before, 0n);
  return encodePublication({ publication, acknowledgedInput, writtenAtMs, output: [], deadLetters: [], rerouted: [] });
}
