import type { DigestName } from "@concord/runtime";

/** `body` is the number of one. What is added lies in shared memory, which stays as it is until it is answered. */
export type DigestInput =
  | { readonly kind: "begin"; readonly body: number; readonly names: readonly DigestName[] }
  | { readonly kind: "add"; readonly body: number; readonly memory: SharedArrayBuffer; readonly length: number }
  | { readonly kind: "finish"; readonly body: number }
  | { readonly kind: "forget"; readonly body: number };

export type DigestOutput =
  | { readonly kind: "added"; readonly body: number }
  | { readonly kind: "digests"; readonly body: number; readonly digests: ReadonlyMap<DigestName, Uint8Array> };
