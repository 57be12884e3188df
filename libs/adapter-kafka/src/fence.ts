// The record that a new owner writes before it reads: from then on the broker refuses what an owner before it sends, by the producer's epoch.
import type { NewMessage } from "@concord/ports";

const FENCE_HEADER = "concord-fence";

/** No message of the pipeline: readers pass over it. */
export function fenceRecord(owner: string, nowMs: number): NewMessage {
  const headers = [{ name: FENCE_HEADER, value: Buffer.from(owner) }];
  return { key: new Uint8Array(0), value: new Uint8Array(0), headers, timestampMs: nowMs };
}

export function isFence({ key, value, headers }: NewMessage): boolean {
  return value.length === 0 && key.length === 0 && headers.length === 1 && headers[0]!.name === FENCE_HEADER;
}

/** What is committed with the offset: the owner, and whether it wrote without transactions, so that it is fenced by records. */
const SINGLE_OWNER = "\nsingle-owner";

export const metadataOf = (owner: string, isSingle: boolean): string => (isSingle ? `${owner}${SINGLE_OWNER}` : owner);
export const ownerOf = (metadata: string): string => metadata.replace(SINGLE_OWNER, "");
export const wasSingle = (metadata: string): boolean => metadata.endsWith(SINGLE_OWNER);
