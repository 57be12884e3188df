import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { KeyValue, StepRunner, WriteMark } from "@concord/ports";
import { TIMESTAMP_ZERO, type Checksum } from "@concord/runtime";

/** Node-local. */
export const WRITE_MARK_KEY = new TextEncoder().encode("m:write-clock");
const FORMAT_VERSION = 1;

/** The mark of this node's write clock, in its store: raised by a step, so in the synced batch of the rows that are written at the time. */
export function ringWriteMark(store: Pick<KeyValue, "get">, runner: StepRunner, checksum: Checksum): WriteMark {
  return {
    async load() {
      const stored = await store.get(WRITE_MARK_KEY);
      return stored === undefined ? TIMESTAMP_ZERO : new ByteReader(openRecord(stored, FORMAT_VERSION, checksum).body).timestampUs();
    },
    raise(toUs) {
      const value = sealRecord(FORMAT_VERSION, new ByteWriter().i64(toUs), checksum);
      return runner.submit({ load: [], run: () => ({ persist: [{ kind: "put", key: WRITE_MARK_KEY, value }], reply: undefined }) });
    },
  };
}
