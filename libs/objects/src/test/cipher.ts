// The cipher of tests: that of the program is an adapter's, which the domain does not import.
import { createCipheriv, createDecipheriv, createHmac } from "node:crypto";
import type { Cipher } from "@concord/runtime";

const TAG_BYTES = 16;

export const testCipher: Cipher = {
  seal(key, nonce, associated, plain) {
    const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(associated);
    return Uint8Array.from(Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]));
  },
  open(key, nonce, associated, sealed) {
    if (sealed.length < TAG_BYTES) return undefined;
    const decipher = createDecipheriv("aes-256-gcm", key, nonce)
      .setAAD(associated)
      .setAuthTag(sealed.subarray(sealed.length - TAG_BYTES));
    const plain = decipher.update(sealed.subarray(0, sealed.length - TAG_BYTES));
    try {
      decipher.final();
    } catch {
      return undefined;
    }
    return Uint8Array.from(plain);
  },
  derive: (key, info) => Uint8Array.from(createHmac("sha256", key).update(info).digest()),
};
