import type { GroupLog, LocalRows, ObjectMetadata, RowStore } from "@concord/ports";
import { SEQ_NONE } from "@concord/runtime";
import { objectMetadataOf, type Serving } from "./context.ts";

/** What a storage-proxy keeps, for other parts of its process: without a wire, without a role. */
export interface DirectStores {
  readonly rows: RowStore;
  readonly groupLog: GroupLog;
  readonly localRows: LocalRows;
  /** UNIMPLEMENTED where the backend has none. */
  readonly objectMetadata: ObjectMetadata;
  /** STORAGE_FULL, applied no, while there is too little space for new data. */
  readonly admit: () => Promise<void>;
}

/** The stores of the storage-proxy that is there at the time of a call: one that failed is followed by another. */
export const relayedStores = (current: () => { readonly serving: Serving }): DirectStores => directStores(() => current().serving());

/** The ports of whatever serves at the time of a call: STARTING before, DRAINING after (applied: no). */
export function directStores(serving: Serving): DirectStores {
  const rows: RowStore = {
    read: async (keys, options) => serving().rows.read(keys, options),
    readRange: async (range, options) => serving().rows.readRange(range, options),
    apply: async (mutations, options) => serving().rows.apply(mutations, options),
  };
  const groupLog: GroupLog = {
    get exchangesMax() {
      return serving().groupLog.exchangesMax;
    },
    status: async (group, timeoutMs) => serving().groupLog.status(group, timeoutMs),
    raise: async (owner, timeoutMs) => serving().groupLog.raise(owner, timeoutMs),
    append: async (request, timeoutMs, span) => serving().groupLog.append(request, timeoutMs, span),
    verify: async (owner, timeoutMs) => serving().groupLog.verify(owner, timeoutMs),
    advance: async (request, timeoutMs) => serving().groupLog.advance(request, timeoutMs),
  };
  const localRows: LocalRows = {
    appliedSeq: (group) => serving().localRows?.appliedSeq(group) ?? SEQ_NONE,
    peek: (key) => {
      const { localRows: local } = serving();
      return local === undefined ? "ask" : local.peek(key);
    },
  };
  const objectMetadata: ObjectMetadata = {
    read: async (partition, keys) => objectMetadataOf(serving()).read(partition, keys),
    range: async (partition, range) => objectMetadataOf(serving()).range(partition, range),
    readCounters: async (partition, key) => objectMetadataOf(serving()).readCounters(partition, key),
    commit: async (commit, span) => objectMetadataOf(serving()).commit(commit, span),
  };
  return { rows, groupLog, localRows, objectMetadata, admit: async () => serving().admit() };
}
