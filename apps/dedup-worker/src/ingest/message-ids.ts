import { idExtractor, partitionOfBytes, partitionOfId, type IdSource, type MissingIdPolicy } from "@concord/dedup";
import { guidToText, type GuidSource } from "@concord/snowflake";
import type { CheckedMessage } from "./check-message.ts";

/** What happens to a message whose id is not found: what the pipeline can do (DDD8), or a new id (DD2). */
export type MissingId = "make" | MissingIdPolicy;

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
  readonly missingId: MissingId;
  readonly guids: GuidSource;
}

/** The id of each message and the partition that follows from it: all copies of an id meet in one (DD3). */
export function placer(options: PlacingOptions): (message: CheckedMessage) => Promise<Placed> {
  const { partitions, source, missingId, guids } = options;
  const find = source === undefined ? undefined : idExtractor(source, missingId === "hash" ? "hash" : "dead-letter");
  return async (message) => {
    const found = message.id === undefined ? find?.(message) : undefined;
    const given = found?.kind === "given" ? found.id : message.id;
    if (given !== undefined) return { message, id: given, partition: partitionOfId(given, partitions) };
    if (found?.kind !== "content" && missingId === "make") {
      const id = new TextEncoder().encode(guidToText(await guids.next()));
      return { message, id, partition: partitionOfId(id, partitions) };
    }
    return { message, id: undefined, partition: partitionOfBytes(message.value, partitions) };
  };
}

/** The pipeline's policy for what arrives without an id: the source's content, if that is the id, else as configured. */
export function pipelinePolicy(source: IdSource | undefined, missingId: MissingId): MissingIdPolicy {
  if (source?.kind === "content") return "hash";
  // Made ids are written before the pipeline sees the message: it finds none missing.
  return missingId === "make" ? "dead-letter" : missingId;
}
