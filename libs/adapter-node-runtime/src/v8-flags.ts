import { setFlagsFromString } from "node:v8";
import { giveBackBurstMemory } from "./burst-memory.ts";

/**
 * Before the program's own work. V8 must not allocate in the old generation what its first seconds say will live long. What they see are rows
 * on their way into caches; the same lines then make objects that live for milliseconds, and every one of those, with all it refers to, stays
 * until a full garbage collection.
 *
 * The bytes of buffers must count to the heap's own limit: by a limit of their own V8 collects all garbage after every 32 to 64 MiB of
 * buffers made, though young collections have freed nearly all of them before. `bench -- s3`, CPU per upload of 1 and 64 MiB without and with it:
 * 12.6 and 6.4 ms, 479 and 234 ms. A process that has just begun, with a small heap, shows the opposite.
 *
 * And what runs once per batch or per write must be optimized, though it runs a few hundred times a second only: by its own limits V8
 * waits for 3000 calls, and for 500 after each that met a new shape. `bench -- txn`, CPU per transaction of processes without and with it side
 * by side: one copy, 256 in flight 132 and 122 us, three copies 401 and 374. Lower limits than these gained nothing.
 *
 * V8 keeps what a burst took until it needs more: `giveBackBurstMemory` returns it.
 */
export function tuneV8(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
  setFlagsFromString("--external-memory-accounted-in-global-limit");
  setFlagsFromString("--invocation-count-for-maglev=100");
  setFlagsFromString("--invocation-count-for-turbofan=600");
  setFlagsFromString("--minimum-invocations-after-ic-update=100");
  giveBackBurstMemory();
}
