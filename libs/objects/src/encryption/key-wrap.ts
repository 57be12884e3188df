// A data key as it is stored: encrypted under another key. Each wrap has a key of its own, of that key and a salt, so that no nonce repeats
// however many keys are wrapped.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { assert, CIPHER_KEY_BYTES, CIPHER_NONCE_BYTES, CIPHER_TAG_BYTES, ConcordError, type Cipher, type Random } from "@concord/runtime";

export const DATA_KEY_BYTES = CIPHER_KEY_BYTES;
const VERSION = 1;
const SALT_BYTES = 16;
const FINGERPRINT_BYTES = 4;
const WRAPPED_BYTES = 1 + FINGERPRINT_BYTES + SALT_BYTES + DATA_KEY_BYTES + CIPHER_TAG_BYTES;
const NONCE = new Uint8Array(CIPHER_NONCE_BYTES);
const WRAP_LABEL = "concord key wrap 1";
const FINGERPRINT_LABEL = "concord key fingerprint 1";

/** Version, fingerprint of the wrapping key, salt, encrypted data key with its tag. */
export function wrapKey(cipher: Cipher, random: Random, wrapping: Uint8Array, dataKey: Uint8Array, associated: Uint8Array): Uint8Array {
  assert(dataKey.length === DATA_KEY_BYTES, "I21: a data key that is wrapped is whole");
  const salt = random.bytes(SALT_BYTES);
  const sealed = cipher.seal(keyOfWrap(cipher, wrapping, salt), NONCE, associated, dataKey);
  const wrapped = new ByteWriter().u8(VERSION).raw(fingerprintOf(cipher, wrapping)).raw(salt).raw(sealed).finish();
  assert(wrapped.length === WRAPPED_BYTES, "I21: a wrapped key can be read again");
  return wrapped;
}

/** Undefined: it was wrapped under another key, or with other associated data. CORRUPT_DATA: it is no wrapped key. */
export function unwrapKey(cipher: Cipher, wrapping: Uint8Array, wrapped: Uint8Array, associated: Uint8Array): Uint8Array | undefined {
  const { salt, sealed } = readWrapped(wrapped);
  return cipher.open(keyOfWrap(cipher, wrapping, salt), NONCE, associated, sealed);
}

/** Tells keys of the same id apart; says nothing of the key. */
export function fingerprintOf(cipher: Cipher, key: Uint8Array): Uint8Array {
  return cipher.derive(key, new ByteWriter().text(FINGERPRINT_LABEL).finish()).subarray(0, FINGERPRINT_BYTES);
}

/** Of the key that it was wrapped under. */
export function wrappedUnder(wrapped: Uint8Array): Uint8Array {
  return readWrapped(wrapped).fingerprint;
}

function keyOfWrap(cipher: Cipher, wrapping: Uint8Array, salt: Uint8Array): Uint8Array {
  if (wrapping.length !== CIPHER_KEY_BYTES) throw new ConcordError("MALFORMED_REQUEST", `an encryption key has ${CIPHER_KEY_BYTES} bytes`);
  return cipher.derive(wrapping, new ByteWriter().text(WRAP_LABEL).raw(salt).finish());
}

function readWrapped(wrapped: Uint8Array): { readonly fingerprint: Uint8Array; readonly salt: Uint8Array; readonly sealed: Uint8Array } {
  const reader = new ByteReader(wrapped);
  const version = reader.u8();
  if (version !== VERSION) throw corrupt(`a wrapped key of format version ${version}, known is ${VERSION}`);
  const found = {
    fingerprint: reader.raw(FINGERPRINT_BYTES),
    salt: reader.raw(SALT_BYTES),
    sealed: reader.raw(DATA_KEY_BYTES + CIPHER_TAG_BYTES),
  };
  reader.end();
  return found;
}
