import type { BackingStore, KeyValue } from "@concord/ports";

/**
 * A backing store by itself, for data that is written once or can be made again: a synced batch flushes everything before it, since a
 * synced log would not hold the unsynced batches of a log file before it. Each flush costs a table file, so a synced batch ends something
 * large (a segment of a window); steps belong on a `Store`.
 */
export function flushedKeyValue(backing: BackingStore): KeyValue {
  return {
    get: async (key) => (await backing.getMany([key]))[0],
    getMany: (keys) => backing.getMany(keys),
    range: (range) => backing.range(range),
    async batch(operations, { sync }) {
      await backing.batch(operations);
      if (sync) await backing.flush();
    },
    close: () => backing.close(),
  };
}
