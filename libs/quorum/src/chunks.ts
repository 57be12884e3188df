import { APPLY_CHUNK_BYTES_TARGET, APPLY_CHUNK_MUTATIONS_MAX } from "./limits.ts";
import { assert } from "@concord/runtime";

/** Mutations in messages of a bounded size; a larger single one goes alone. */
export function chunksOf(mutations: readonly Uint8Array[]): (readonly Uint8Array[])[] {
  const chunks: Uint8Array[][] = [];
  let current: Uint8Array[] = [];
  let bytes = 0;
  for (const mutation of mutations) {
    if (current.length === APPLY_CHUNK_MUTATIONS_MAX || (current.length > 0 && bytes + mutation.length > APPLY_CHUNK_BYTES_TARGET)) {
      assert(current.length <= APPLY_CHUNK_MUTATIONS_MAX, "a chunk is bounded");
      chunks.push(current);
      current = [];
      bytes = 0;
    }
    current.push(mutation);
    bytes += mutation.length;
  }
  if (current.length > 0) chunks.push(current);
  assert(chunks.reduce((sum, chunk) => sum + chunk.length, 0) === mutations.length, "every mutation is in one chunk");
  return chunks;
}
