// Seeds whose bucket encrypts by default: every answer to a read says so, and no blob begins with what a client sent.
import type { ObjectGatewayConfig } from "@concord/object-gateway";
import { unreachable } from "@concord/runtime";
import type { World } from "@concord/simulation";
import { KMS_KEYS, SEALED_TEXT } from "./sealed.ts";

const keyOf = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
const EARLIER = { id: "first", key: keyOf(1) };
const PRESENT = { id: "second", key: keyOf(2) };
/** Of SSE-KMS: the earlier ones, and those of the same ids that take their places. */
const EARLIER_KMS = KMS_KEYS.map((id, at) => ({ id, key: keyOf(3 + at) }));
const PRESENT_KMS = KMS_KEYS.map((id, at) => ({ id, key: keyOf(5 + at) }));

/**
 * Which master keys a gateway starts with while they are replaced: each has both first, so that none meets a key that it does not have, and the earlier
 * ones go when nothing needs them any more.
 */
export type KeyPhase = "earlier-first" | "present-first" | "present-alone";

export function managedKeys(phase: KeyPhase): { readonly encryptionKeys: ObjectGatewayConfig["encryptionKeys"] } {
  return { encryptionKeys: inPhase(phase, [EARLIER], [PRESENT]) };
}

export function serviceKeys(phase: KeyPhase): { readonly kmsKeys: ObjectGatewayConfig["kmsKeys"] } {
  return { kmsKeys: inPhase(phase, EARLIER_KMS, PRESENT_KMS) };
}

function inPhase<Key>(phase: KeyPhase, earlier: readonly Key[], present: readonly Key[]): Key[] {
  switch (phase) {
    case "earlier-first":
      return [...earlier, ...present];
    case "present-first":
      return [...present, ...earlier];
    case "present-alone":
      return [...present];
    default:
      return unreachable(phase);
  }
}

export const ENCRYPTED_DEFAULT =
  "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>" +
  "</ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";

/** Of a key that was read: all of the bucket was stored after its default was set. */
export function judgeAnswer(world: World, key: string, headers: ReadonlyMap<string, string>): void {
  if (headers.get("x-amz-server-side-encryption") !== "AES256") world.violation("stored in plaintext", `${key} is not encrypted`);
}

/** Bodies of puts there begin with the names of their operations; the bucket with locks does not encrypt. `isEncrypted`: by default. */
export function judgeBlob(world: World, begin: Uint8Array, isEncrypted: boolean): void {
  const text = Buffer.from(begin).toString("latin1");
  const isSealed = text.startsWith(SEALED_TEXT);
  if (isSealed || (isEncrypted && /^(?:client-\d+|admin)-put-\d+/.test(text)))
    world.violation("stored in plaintext", `a blob begins with ${text.slice(0, 24)}`);
}
