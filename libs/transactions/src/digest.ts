import { ByteWriter } from "@concord/codec";
import { encodeMutation } from "@concord/rows";
import { TIMESTAMP_ZERO, type Checksum } from "@concord/runtime";
import type { TableWrite } from "./pending-rows.ts";

/** Of a commit's or execute's own writes: the same id with another payload is refused (TXD7). 0 = no writes. */
export function digestOf(writes: readonly TableWrite[], checksum: Checksum): bigint {
  if (writes.length === 0) return 0n;
  const writer = new ByteWriter(512);
  for (const { write } of writes) {
    const { kind, key } = write;
    writer.bytes(
      encodeMutation(
        kind === "delete" ? { kind, key, timestampUs: TIMESTAMP_ZERO } : { kind, key, columns: write.columns, timestampUs: TIMESTAMP_ZERO },
      ),
    );
  }
  const bytes = writer.finish();
  return (BigInt(checksum(bytes) >>> 0) << 32n) | BigInt(bytes.length);
}
