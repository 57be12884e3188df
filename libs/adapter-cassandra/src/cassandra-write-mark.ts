import type { Mutation, RowKey, RowStore, WriteMark } from "@concord/ports";
import { TIMESTAMP_ZERO } from "@concord/runtime";

/** One row for all storage-proxies of the keyspace. */
const MARK: RowKey = { table: "concord_write_clock", partition: [], clustering: [] };

/**
 * Mark of the write clocks of all storage-proxies, kept as the marker of one row: the newest timestamp wins, so raises of several nodes leave the
 * highest. A node that starts draws above what every other one acknowledged before.
 */
export function cassandraWriteMark(rows: RowStore, timeoutMs: number): WriteMark {
  return {
    async load() {
      const [image] = await rows.read([MARK], { timeoutMs });
      return image?.markerUs ?? TIMESTAMP_ZERO;
    },
    raise(toUs) {
      const mutation: Mutation = { kind: "insert", key: MARK, columns: [], timestampUs: toUs };
      return rows.apply([mutation], { timeoutMs });
    },
  };
}
