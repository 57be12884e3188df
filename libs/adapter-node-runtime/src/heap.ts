import { setFlagsFromString } from "node:v8";

/**
 * Before the program's own work: V8 must not allocate in the old generation what its first seconds say will live long. What they see are rows
 * on their way into caches; the same lines then make objects that live for milliseconds, and every one of those, with all it refers to, stays
 * until a full garbage collection.
 */
export function tuneHeap(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}
