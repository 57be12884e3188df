import { compareBytes } from "@concord/codec";
import type { KeyService, WrappedKey } from "@concord/ports";
import { assert, CIPHER_KEY_BYTES, ConcordError, type Cipher, type Random } from "@concord/runtime";
import { fingerprintOf, unwrapKey, wrapKey, wrappedUnder } from "./key-wrap.ts";

export interface LocalKey {
  readonly id: string;
  /** 32 bytes. */
  readonly key: Uint8Array;
}

interface KnownKey extends LocalKey {
  readonly fingerprint: Uint8Array;
}

/**
 * A key service of keys that this process was given. The first key is used when none is named; of several with one id the first wraps, and
 * all unwrap: a new one is put before the one whose place it takes.
 */
export class LocalKeys implements KeyService {
  readonly #cipher: Cipher;
  readonly #random: Random;
  readonly #keys: readonly KnownKey[];
  readonly #rotation: "over-all-ids" | "within-an-id";

  /** Over all ids: the first key takes the place of all others. Within an id: of those of its own id. */
  constructor(cipher: Cipher, random: Random, keys: readonly LocalKey[], rotation: "over-all-ids" | "within-an-id") {
    assert(
      keys.every(({ key }) => key.length === CIPHER_KEY_BYTES),
      "an encryption key has 32 bytes",
    );
    this.#cipher = cipher;
    this.#random = random;
    this.#keys = keys.map(({ id, key }) => ({ id, key, fingerprint: fingerprintOf(cipher, key) }));
    this.#rotation = rotation;
  }

  wrap(keyId: string | undefined, dataKey: Uint8Array, associated: Uint8Array): Promise<WrappedKey> {
    const found = this.#current(keyId);
    if (found === undefined) return Promise.reject(noSuchKey(keyId));
    return Promise.resolve({ keyId: found.id, wrapped: wrapKey(this.#cipher, this.#random, found.key, dataKey, associated) });
  }

  // oxlint-disable-next-line require-await
  async unwrap({ keyId, wrapped }: WrappedKey, associated: Uint8Array): Promise<Uint8Array> {
    const under = wrappedUnder(wrapped);
    const found = this.#keys.find(({ id, fingerprint }) => id === keyId && compareBytes(fingerprint, under) === 0);
    if (found === undefined) throw noSuchKey(keyId);
    const dataKey = unwrapKey(this.#cipher, found.key, wrapped, associated);
    if (dataKey === undefined) throw new ConcordError("CORRUPT_DATA", "a wrapped key does not belong to what it was found with");
    return dataKey;
  }

  isCurrent({ keyId, wrapped }: WrappedKey): boolean {
    const current = this.#current(this.#rotation === "over-all-ids" ? undefined : keyId);
    // A key that is gone cannot be replaced.
    if (current === undefined) return true;
    return current.id === keyId && compareBytes(current.fingerprint, wrappedUnder(wrapped)) === 0;
  }

  #current(keyId: string | undefined): KnownKey | undefined {
    return keyId === undefined ? this.#keys[0] : this.#keys.find(({ id }) => id === keyId);
  }
}

function noSuchKey(keyId: string | undefined): ConcordError {
  const message = keyId === undefined ? "there is no encryption key" : `there is no encryption key ${keyId}`;
  return new ConcordError("NOT_FOUND", message, { metadata: { key: keyId ?? "" } });
}
