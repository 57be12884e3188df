import type { ReplicaService, StoreEntryInit } from "@concord/protos-storage";
import type { KeyValue } from "@concord/ports";
import type { Handler } from "@concord/rpc";
import { COPIED_NAMESPACES, HEADERS_NAMESPACE } from "../formation/copy-store.ts";
import { COPY_PAGE_BYTES_TARGET, LARGE_VALUE_BYTES, REPLICA_ITEMS_MAX } from "../limits.ts";
import type { RingSource } from "../ring-backend.ts";
import { checkCount } from "../../rpc/checks.ts";

const HEADERS_ONLY = [HEADERS_NAMESPACE];

/** One page of this node's store for a peer that lost its own, or may lack something (TXR4). */
export function copyHandler(source: () => RingSource, rowSource: () => RingSource, store: KeyValue): Handler<ReplicaService, "Copy"> {
  return async (request) => {
    const { recovering, lacksRows, node } = request.headersOnly ? source() : rowSource();
    const { forgotten } = node;
    checkCount(request.limit, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "entries");
    const entries: StoreEntryInit[] = [];
    let bytes = 0;
    for (const namespace of request.headersOnly ? HEADERS_ONLY : COPIED_NAMESPACES) {
      const from = laterOf(Uint8Array.of(namespace), request.afterKey);
      const limits = { limit: request.limit - entries.length, bytesMax: COPY_PAGE_BYTES_TARGET - bytes };
      const found = await store.range({ from, to: Uint8Array.of(namespace + 1), ...limits });
      for (const entry of found) {
        const isLarge = entry.value.length > LARGE_VALUE_BYTES;
        entries.push(isLarge ? { key: entry.key, leftOutBytes: BigInt(entry.value.length) } : entry);
        // A value that is left out ends the page as well: the store ended its answer at it.
        bytes += entry.key.length + entry.value.length;
        if (bytes >= COPY_PAGE_BYTES_TARGET || entries.length === request.limit) {
          return {
            entries,
            done: false,
            lastKey: entry.key,
            recovering,
            lacksRows,
            collection: forgotten.collection,
            forgottenUs: forgotten.newestUs,
          };
        }
      }
    }
    const lastKey = entries.at(-1)?.key ?? request.afterKey;
    return { entries, done: true, lastKey, recovering, lacksRows, collection: forgotten.collection, forgottenUs: forgotten.newestUs };
  };
}

/** The first key of the namespace that comes after `afterKey`. */
function laterOf(namespace: Uint8Array, afterKey: Uint8Array): Uint8Array {
  const first = afterKey[0];
  return first === namespace[0]
    ? Uint8Array.of(...afterKey, 0)
    : first !== undefined && first > namespace[0]!
      ? Uint8Array.of(namespace[0]! + 1)
      : namespace;
}
