// The field of encrypted rows: golden bytes are tested with the rows.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { unreachable } from "@concord/runtime";
import type { ObjectEncryption, PartEncryption, WrappingKey } from "./rows.ts";

const TAGS = { managed: 1, service: 2, customer: 3, part: 4 } as const;

export function encryptionBytes(encryption: ObjectEncryption | PartEncryption): Uint8Array {
  const writer = new ByteWriter(256);
  if ("under" in encryption) writeUnder(writer, encryption.under).bytes(encryption.wrapped);
  else writer.u8(TAGS.part);
  writer.u64(encryption.guid).u8(encryption.checksum === undefined ? 0 : 1);
  if (encryption.checksum !== undefined) writer.bytes(encryption.checksum);
  return writer.finish();
}

function writeUnder(writer: ByteWriter, under: WrappingKey): ByteWriter {
  writer.u8(TAGS[under.kind]);
  switch (under.kind) {
    case "managed":
      return writer.text(under.keyId);
    case "service":
      return writer.text(under.keyId).text(under.context);
    case "customer":
      return writer;
    default:
      return unreachable(under);
  }
}

/** Of an object or an upload. CORRUPT_DATA. */
export function readObjectEncryption(reader: ByteReader): ObjectEncryption {
  const tag = reader.u8();
  const under = readUnder(reader, tag);
  return { under, wrapped: Uint8Array.from(reader.bytes()), ...readRest(reader) };
}

export function readPartEncryption(reader: ByteReader): PartEncryption {
  const tag = reader.u8();
  if (tag !== TAGS.part) throw corrupt(`encryption of kind ${tag} where a part's belongs`);
  return readRest(reader);
}

function readUnder(reader: ByteReader, tag: number): WrappingKey {
  switch (tag) {
    case TAGS.managed:
      return { kind: "managed", keyId: reader.text() };
    case TAGS.service:
      return { kind: "service", keyId: reader.text(), context: reader.text() };
    case TAGS.customer:
      return { kind: "customer" };
    default:
      throw corrupt(`encryption of unknown kind ${tag}`);
  }
}

function readRest(reader: ByteReader): PartEncryption {
  const guid = reader.u64();
  return reader.u8() === 0 ? { guid } : { guid, checksum: Uint8Array.from(reader.bytes()) };
}
