// Encryption in tests: keys that are the same in each run, randomness that counts.
import type { Random } from "@concord/runtime";
import type { EncryptionContext, EncryptionRequest } from "../encryption/data-keys.ts";
import { LocalKeys, type LocalKey } from "../encryption/local-keys.ts";
import { testCipher } from "./cipher.ts";

export const keyOf = (fill: number): Uint8Array => new Uint8Array(32).fill(fill);
export const CUSTOMER_KEY = keyOf(0xc1);

/** Differs from call to call. */
export function countingRandom(): Random {
  let calls = 0;
  const bytes = (length: number): Uint8Array => {
    calls += 1;
    return Uint8Array.from({ length }, (_, at) => (calls * 31 + at * 7) % 256);
  };
  return { bytes, below: () => 0, float: () => 0 };
}

export interface TestKeys {
  readonly managed?: readonly LocalKey[];
  readonly service?: readonly LocalKey[];
}

export const KEYS: Required<TestKeys> = {
  managed: [{ id: "master-1", key: keyOf(0xa1) }],
  service: [
    { id: "first", key: keyOf(0xb1) },
    { id: "second", key: keyOf(0xb2) },
  ],
};

export function encryptionOf({ managed, service }: TestKeys = KEYS): EncryptionContext {
  const random = countingRandom();
  return {
    cipher: testCipher,
    random,
    managed: managed && new LocalKeys(testCipher, random, managed, "over-all-ids"),
    service: service && new LocalKeys(testCipher, random, service, "within-an-id"),
  };
}

export const REQUESTS: readonly EncryptionRequest[] = [
  { kind: "managed" },
  { kind: "service", keyId: undefined, context: "" },
  { kind: "service", keyId: "second", context: '{"project":"x"}' },
  { kind: "customer", key: CUSTOMER_KEY },
];

export const keyFor = (request: EncryptionRequest | undefined): Uint8Array | undefined =>
  request?.kind === "customer" ? request.key : undefined;
