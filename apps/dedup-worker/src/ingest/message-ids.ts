import { ID_HEADER, idExtractor, partitionOfContent, partitionOfId, type IdSource, type MissingIdPolicy } from "@concord/dedup";
import { guidToText, type GuidSource } from "@concord/snowflake";
import type { CheckedMessage } from "./check-message.ts";

/** Where a message goes, and by which id. */
export interface Placed {
  readonly message: CheckedMessage;
  /** Undefined: what happens to it is the pipeline's policy. */
  readonly id: Uint8Array | undefined;
  readonly partition: number;
}

export interface PlacingOptions {
  readonly partitions: number;
  /** Undefined: only the producer says what a message's id is. */
  readonly source: IdSource | undefined;
  readonly missingId: MissingIdPolicy;
  readonly guids: GuidSource;
}

/** The id of each message and the partition that follows from it: all copies of an id meet in one (DD3). */
export function placer(options: PlacingOptions): (message: CheckedMessage) => Promise<Placed> {
  const { partitions, source, missingId, guids } = options;
  const find = source === undefined ? undefined : idExtractor([source], missingId === "hash" ? "hash" : "dead-letter");
  return async (message) => {
    const found = message.id === undefined ? find?.(message) : undefined;
    const isFree = found?.kind !== "content" && (missingId === "make" || missingId === "pass");
    const given = (found?.kind === "given" ? found.id : message.id) ?? (isFree ? message.fallbackId : undefined);
    if (given !== undefined) return { message, id: given, partition: partitionOfId(given, partitions) };
    if (found?.kind !== "content" && missingId === "make") {
      const id = new TextEncoder().encode(guidToText(await guids.next()));
      return { message, id, partition: partitionOfId(id, partitions) };
    }
    return { message, id: undefined, partition: partitionOfContent(message.value, partitions) };
  };
}

/** Where the pipeline finds the ids of input messages: what `ingest` wrote or a producer of the topic says, then where such a producer's messages have theirs. */
export function pipelineSources(source: IdSource | undefined): readonly IdSource[] {
  return [{ kind: "header", name: ID_HEADER }, ...(source === undefined ? [] : [source])];
}
