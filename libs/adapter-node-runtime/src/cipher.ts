import { createCipheriv, createDecipheriv, createHmac } from "node:crypto";
import { assert, CIPHER_KEY_BYTES, CIPHER_NONCE_BYTES, CIPHER_TAG_BYTES, type Cipher } from "@concord/runtime";

const ALGORITHM = "aes-256-gcm";
const TAG = { authTagLength: CIPHER_TAG_BYTES };

function check(key: Uint8Array, nonce: Uint8Array): void {
  assert(key.length === CIPHER_KEY_BYTES, "a key of AES-256 has 32 bytes");
  assert(nonce.length === CIPHER_NONCE_BYTES, "a nonce of GCM has 12 bytes");
}

/** OpenSSL, on the calling thread: a frame takes microseconds, less than to hand it over. */
export const nodeCipher: Cipher = {
  seal(key, nonce, associated, plain) {
    check(key, nonce);
    const cipher = createCipheriv(ALGORITHM, key, nonce, TAG).setAAD(associated);
    const sealed = new Uint8Array(plain.length + CIPHER_TAG_BYTES);
    sealed.set(cipher.update(plain), 0);
    cipher.final();
    sealed.set(cipher.getAuthTag(), plain.length);
    return sealed;
  },
  open(key, nonce, associated, sealed) {
    check(key, nonce);
    const length = sealed.length - CIPHER_TAG_BYTES;
    if (length < 0) return undefined;
    const decipher = createDecipheriv(ALGORITHM, key, nonce, TAG).setAAD(associated);
    decipher.setAuthTag(sealed.subarray(length));
    const plain = decipher.update(sealed.subarray(0, length));
    try {
      decipher.final();
    } catch {
      return undefined;
    }
    return plain;
  },
  derive: (key, info) => createHmac("sha256", key).update(info).digest(),
};
