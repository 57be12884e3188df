import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { KeyValue } from "@concord/ports";
import { ConcordError, type Checksum } from "@concord/runtime";

/** Keys of the store "meta". */
export const LAYOUT_KEY = Uint8Array.of(0x01);
export const ID_MARK_KEY = Uint8Array.of(0x02);

const LAYOUT_VERSION = 1;

/**
 * Makes sure that the data folder has this many partitions; a new one gets them for good (DDD3): an id's partition follows from their
 * number, so with another number copies of an id would no longer meet. SCHEMA_INVALID, CORRUPT_DATA.
 */
export async function checkLayout(meta: KeyValue, partitions: number, checksum: Checksum): Promise<void> {
  const stored = await meta.get(LAYOUT_KEY);
  if (stored === undefined) {
    const value = encodeLayout(partitions, checksum);
    await meta.batch([{ kind: "put", key: LAYOUT_KEY, value }], { sync: true });
    return;
  }
  const held = decodeLayout(stored, checksum);
  if (held === partitions) return;
  throw new ConcordError(
    "SCHEMA_INVALID",
    `the data folder was made with ${held} partitions, the configuration says ${partitions}: set partitions to ${held}; another number needs new logs too, an empty data folder and on Kafka a new kafkaPipeline with new topics`,
    { metadata: { stored: String(held), configured: String(partitions) } },
  );
}

export function encodeLayout(partitions: number, checksum: Checksum): Uint8Array {
  return sealRecord(LAYOUT_VERSION, new ByteWriter(4).u32(partitions), checksum);
}

export function decodeLayout(stored: Uint8Array, checksum: Checksum): number {
  const reader = new ByteReader(openRecord(stored, LAYOUT_VERSION, checksum).body);
  const partitions = reader.u32();
  reader.end();
  return partitions;
}
