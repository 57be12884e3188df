// Seeds whose bucket encrypts by default: every answer to a read says so, and no blob begins with what a client sent.
import type { World } from "@concord/simulation";
import { SEALED_TEXT } from "./sealed.ts";

/** One that was replaced and the one that took its place: each gateway wraps data keys anew. */
export const ENCRYPTED_CONFIG = {
  encryptionKeys: [
    { id: "second", key: Buffer.alloc(32, 2).toString("base64") },
    { id: "first", key: Buffer.alloc(32, 1).toString("base64") },
  ],
};

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
