import { createHmac } from "node:crypto";
import { SIGNING_KEYS_MAX } from "../limits.ts";

/** Derives signing keys and keeps them: four HMACs per request are a third of verifying it. */
export interface SigningKeys {
  get(parts: { accessKey: string; secret: string; date: string; region: string }): Uint8Array;
}

export function signingKeys(): SigningKeys {
  const kept = new Map<string, { readonly secret: string; readonly key: Uint8Array }>();
  return {
    get({ accessKey, secret, date, region }) {
      const name = `${accessKey}/${date}/${region}`;
      const found = kept.get(name);
      if (found?.secret === secret) return found.key;
      // The oldest goes; access keys are known ones, so strangers cannot fill this.
      if (kept.size >= SIGNING_KEYS_MAX) kept.delete(kept.keys().next().value!);
      const key = deriveSigningKey(secret, date, region);
      kept.set(name, { secret, key });
      return key;
    },
  };
}

export function deriveSigningKey(secret: string, date: string, region: string): Uint8Array {
  const hmac = (key: Uint8Array | string, text: string): Uint8Array => createHmac("sha256", key).update(text, "utf8").digest();
  return hmac(hmac(hmac(hmac(`AWS4${secret}`, date), region), "s3"), "aws4_request");
}
