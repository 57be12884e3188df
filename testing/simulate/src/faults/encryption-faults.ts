import type { SeededFault } from "./seeded-fault.ts";

const FRAMES = "libs/objects/src/encryption/frames.ts";
const KEY_ROTATION = "libs/objects/src/encryption/key-rotation.ts";
const DATA_KEYS = "libs/objects/src/encryption/data-keys.ts";

/** Mistakes in the encryption of objects, by keys of clients and of services. */
export const ENCRYPTION_FAULTS: readonly SeededFault[] = [
  {
    name: "frame-not-authenticated",
    about: "A frame that does not open is given out as it is: bytes that were changed on the disk reach clients (OGD24).",
    scenario: "object",
    edits: [
      {
        file: FRAMES,
        search:
          '  if (plain === undefined) throw new ConcordError("CORRUPT_DATA", `frame ${index} of encrypted data is not what was stored`);\n',
        replace: "  if (plain === undefined) return sealed.slice(0, sealed.length - CIPHER_TAG_BYTES);\n",
      },
    ],
  },
  {
    name: "frame-without-its-place",
    about: "Frames are not bound to their index: two of a blob in each other's place are read as if they were right (OGD24).",
    scenario: "object",
    edits: [
      {
        file: FRAMES,
        search: "    new DataView(bytes.buffer, bytes.byteOffset).setUint32(offset, index);",
        replace: "    new DataView(bytes.buffer, bytes.byteOffset).setUint32(offset, 0);",
      },
    ],
  },
  {
    name: "any-customer-key-opens",
    about: "The data key of an object under a client's key is wrapped without it: who sends any key reads it (OGD23).",
    scenario: "object",
    edits: [
      {
        file: DATA_KEYS,
        search: "wrapKey(cipher, random, request.key, bytes,",
        replace: "wrapKey(cipher, random, new Uint8Array(CIPHER_KEY_BYTES), bytes,",
      },
      {
        file: DATA_KEYS,
        search: "unwrapKey(context.cipher, customerKey!, wrapped,",
        replace: "unwrapKey(context.cipher, new Uint8Array(CIPHER_KEY_BYTES), wrapped,",
      },
    ],
  },
  {
    name: "stored-without-its-key",
    about: "What is to be encrypted under a key that is not configured is stored as it came (OGD23).",
    scenario: "object",
    edits: [
      {
        file: "libs/objects/src/put-object.ts",
        search: "await newDataKey(context, request.encryption, request, guid);",
        replace: "await newDataKey(context, request.encryption, request, guid).catch(() => undefined);",
      },
      { file: "apps/object-gateway/src/http/encryption.ts", search: "  checkConfigured(used, context);\n", replace: "" },
    ],
  },
  {
    name: "rotation-passes-versions-over",
    about:
      "Only current objects are wrapped anew: their earlier versions cannot be read when the earlier master key is taken away (OGD23).",
    scenario: "object",
    edits: [
      { file: KEY_ROTATION, search: "bucketPartition(name, shard), contentSpan()", replace: "bucketPartition(name, shard), headSpan()" },
    ],
  },
  {
    name: "rotation-wraps-another-key",
    about: "What is wrapped under the present master key is not the data key that the earlier one wrapped: the object is lost (OGD23).",
    scenario: "object",
    edits: [
      {
        file: DATA_KEYS,
        search: 'service.wrap(under.kind === "service" ? under.keyId : undefined, bytes,',
        replace: 'service.wrap(under.kind === "service" ? under.keyId : undefined, new Uint8Array(bytes.length),',
      },
    ],
  },
];
