// The data key of an object: made with it, kept wrapped in its row, bound to what it is the key of.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { KeyService } from "@concord/ports";
import { assert, CIPHER_NONCE_BYTES, CIPHER_KEY_BYTES, ConcordError, unreachable, type Cipher, type Random } from "@concord/runtime";
import type { StoredChecksum } from "../rows.ts";
import { DATA_KEY_BYTES, unwrapKey, wrapKey } from "./key-wrap.ts";
import type { ObjectEncryption, WrappingKey } from "./rows.ts";

/** What encryption needs; without it every request for it is refused. */
export interface EncryptionContext {
  readonly cipher: Cipher;
  readonly random: Random;
  /** Master keys, for SSE-S3; undefined: it is refused. */
  readonly managed: KeyService | undefined;
  /** For SSE-KMS; undefined: it is refused. */
  readonly service: KeyService | undefined;
}

/** How a new object is to be encrypted. */
export type EncryptionRequest =
  | { readonly kind: "managed" }
  /** Without an id the service's default. */
  | { readonly kind: "service"; readonly keyId: string | undefined; readonly context: string }
  | { readonly kind: "customer"; readonly key: Uint8Array };

/** What answers say of an object's encryption. */
export type ShownEncryption = WrappingKey;

/** The data key itself: in memory only, while it is used. */
export interface DataKey {
  readonly cipher: Cipher;
  readonly random: Random;
  readonly bytes: Uint8Array;
  readonly encryption: ObjectEncryption;
}

/** What a data key is bound to, besides its GUID: its row cannot be another object's. */
export interface KeyOwner {
  readonly bucket: string;
  readonly key: string;
}

type Holder = { readonly encryption?: EncryptionContext };

const KEY_LABEL = "concord data key 1";
const CHECKSUM_LABEL = "concord checksum 1";

/** UNIMPLEMENTED: no key is configured for it; nothing is ever stored in plaintext instead. MALFORMED_REQUEST (field kmsKey): no such key. */
export async function newDataKey({ encryption }: Holder, request: EncryptionRequest, owner: KeyOwner, guid: bigint): Promise<DataKey> {
  if (encryption === undefined) throw notConfigured();
  const { cipher, random } = encryption;
  const bytes = random.bytes(DATA_KEY_BYTES);
  assert(bytes.length === DATA_KEY_BYTES, "I21: a data key is whole");
  const { under, wrapped } = await wrapFor(encryption, request, { owner, guid, bytes });
  return { cipher, random, bytes, encryption: { under, wrapped, guid } };
}

async function wrapFor(
  context: EncryptionContext,
  request: EncryptionRequest,
  { owner, guid, bytes }: { readonly owner: KeyOwner; readonly guid: bigint; readonly bytes: Uint8Array },
): Promise<Pick<ObjectEncryption, "under" | "wrapped">> {
  const { cipher, random } = context;
  switch (request.kind) {
    case "managed": {
      if (context.managed === undefined) throw notConfigured();
      const { keyId, wrapped } = await context.managed.wrap(undefined, bytes, boundTo("managed", owner, guid, ""));
      return { under: { kind: "managed", keyId }, wrapped };
    }
    case "service": {
      if (context.service === undefined) throw notConfigured();
      const { keyId, wrapped } = await context.service
        .wrap(request.keyId, bytes, boundTo("service", owner, guid, request.context))
        .catch(unknownServiceKey);
      return { under: { kind: "service", keyId, context: request.context }, wrapped };
    }
    case "customer":
      return { under: { kind: "customer" }, wrapped: wrapKey(cipher, random, request.key, bytes, boundTo("customer", owner, guid, "")) };
    default:
      return unreachable(request);
  }
}

/**
 * The data key of what is stored. PERMISSION_DENIED: the customer's key is another one; CORRUPT_DATA: its row is not its own; MALFORMED_REQUEST
 * (field kmsKey): the service does not have its key any more; INTERNAL: no master key of its id is configured.
 */
export async function openDataKey(
  { encryption: context }: Holder,
  encryption: ObjectEncryption,
  owner: KeyOwner,
  customerKey: Uint8Array | undefined,
): Promise<DataKey> {
  checkCustomerKey(encryption, customerKey);
  if (context === undefined) throw keyGone("none");
  const { cipher, random } = context;
  return { cipher, random, bytes: await unwrapped(context, encryption, owner, customerKey), encryption };
}

async function unwrapped(
  context: EncryptionContext,
  { under, wrapped, guid }: ObjectEncryption,
  owner: KeyOwner,
  customerKey: Uint8Array | undefined,
): Promise<Uint8Array> {
  switch (under.kind) {
    case "managed": {
      const { keyId } = under;
      if (context.managed === undefined) throw keyGone(keyId);
      return await context.managed.unwrap({ keyId, wrapped }, boundTo("managed", owner, guid, "")).catch((thrown: unknown) => {
        throw isAbsent(thrown) ? keyGone(keyId) : thrown;
      });
    }
    case "service": {
      if (context.service === undefined) return unknownServiceKey(new ConcordError("NOT_FOUND", "there is no key service"));
      const bound = boundTo("service", owner, guid, under.context);
      return await context.service.unwrap({ keyId: under.keyId, wrapped }, bound).catch(unknownServiceKey);
    }
    case "customer": {
      const bytes = unwrapKey(context.cipher, customerKey!, wrapped, boundTo("customer", owner, guid, ""));
      if (bytes === undefined) throw new ConcordError("PERMISSION_DENIED", "the object was stored with another customer key");
      return bytes;
    }
    default:
      return unreachable(under);
  }
}

/** MALFORMED_REQUEST: a customer key where there is none to be given, or none where there is. */
export function checkCustomerKey(encryption: ObjectEncryption | undefined, customerKey: Uint8Array | undefined): void {
  const isCustomers = encryption?.under.kind === "customer";
  if (isCustomers && customerKey === undefined)
    throw refusal(
      "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.",
    );
  if (!isCustomers && customerKey !== undefined) throw refusal("The encryption parameters are not applicable to this object.");
  if (customerKey !== undefined && customerKey.length !== CIPHER_KEY_BYTES)
    throw refusal("The secret key was invalid for the specified algorithm.");
}

/** The data key wrapped anew: under the key that its wrapping key's service uses now. Undefined: it is, or it is a customer's. */
export async function rewrapped(context: Holder, encryption: ObjectEncryption, owner: KeyOwner): Promise<ObjectEncryption | undefined> {
  const { under, wrapped, guid } = encryption;
  if (under.kind === "customer") return undefined;
  const service = context.encryption?.[under.kind];
  if (service === undefined) throw keyGone(under.keyId);
  if (service.isCurrent({ keyId: under.keyId, wrapped })) return undefined;
  const { bytes } = await openDataKey(context, encryption, owner, undefined);
  const text = under.kind === "service" ? under.context : "";
  const next = await service.wrap(under.kind === "service" ? under.keyId : undefined, bytes, boundTo(under.kind, owner, guid, text));
  return { ...encryption, under: { ...under, keyId: next.keyId }, wrapped: next.wrapped };
}

/** A checksum says what the plaintext is: beside ciphertext under a customer's or a service's key it is encrypted itself. */
export function sealChecksum({ cipher, random, bytes }: DataKey, checksum: StoredChecksum): Uint8Array {
  const nonce = random.bytes(CIPHER_NONCE_BYTES);
  const text = new ByteWriter().text(checksum.algorithm).text(checksum.type).text(checksum.value).finish();
  const sealed = cipher.seal(cipher.derive(bytes, checksumLabel()), nonce, checksumLabel(), text);
  return new ByteWriter().raw(nonce).raw(sealed).finish();
}

/** CORRUPT_DATA: it is not what was sealed there. */
export function openChecksum({ cipher, bytes }: DataKey, sealed: Uint8Array): StoredChecksum {
  const nonce = sealed.subarray(0, CIPHER_NONCE_BYTES);
  const label = checksumLabel();
  const text =
    sealed.length < CIPHER_NONCE_BYTES
      ? undefined
      : cipher.open(cipher.derive(bytes, label), nonce, label, sealed.subarray(CIPHER_NONCE_BYTES));
  if (text === undefined) throw corrupt("an encrypted checksum is not what was stored");
  const reader = new ByteReader(text);
  const checksum = { algorithm: reader.text(), type: reader.text(), value: reader.text() } as StoredChecksum;
  reader.end();
  return checksum;
}

/** Tells texts apart that say which purpose a derived key has. */
const checksumLabel = (): Uint8Array => new ByteWriter().text(CHECKSUM_LABEL).finish();

function boundTo(kind: WrappingKey["kind"], { bucket, key }: KeyOwner, guid: bigint, context: string): Uint8Array {
  return new ByteWriter().text(KEY_LABEL).text(kind).text(bucket).text(key).u64(guid).text(context).finish();
}

const isAbsent = (thrown: unknown): boolean => thrown instanceof ConcordError && thrown.code === "NOT_FOUND";

function unknownServiceKey(thrown: unknown): never {
  if (!isAbsent(thrown)) throw thrown;
  const { message } = thrown as ConcordError;
  throw new ConcordError("MALFORMED_REQUEST", message, { metadata: { field: "kmsKey" }, cause: thrown });
}

const refusal = (message: string): ConcordError => new ConcordError("MALFORMED_REQUEST", message, { metadata: { field: "encryption" } });

const notConfigured = (): ConcordError =>
  new ConcordError("UNIMPLEMENTED", "Server side encryption was asked for, and no key for it is configured.");

/** An operator's mistake: it was configured when the object was stored. */
const keyGone = (keyId: string): ConcordError =>
  new ConcordError("INTERNAL", `the master key ${keyId} of an encrypted object is not configured`, { applied: "no" });

/** What a row says of a body that was encrypted with the key: the checksum in plaintext, or encrypted. */
export function encryptedRow(
  key: DataKey | undefined,
  { checksum, sealedChecksum }: { readonly checksum: StoredChecksum | undefined; readonly sealedChecksum?: Uint8Array },
): { readonly checksum: StoredChecksum | undefined; readonly encryption?: ObjectEncryption } {
  if (key === undefined) return { checksum };
  if (sealedChecksum === undefined)
    return { checksum: key.encryption.under.kind === "managed" ? checksum : undefined, encryption: key.encryption };
  return { checksum: undefined, encryption: { ...key.encryption, checksum: sealedChecksum } };
}
