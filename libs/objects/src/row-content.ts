// Where the bytes of an object are, in its row; names of blobs.
import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { oidOf, parseOid, type Oid } from "@concord/ports";
import { unreachable } from "@concord/runtime";
import { readNumber, writeNumber } from "./row-numbers.ts";
import { readList } from "./row-values.ts";
import type { Content } from "./rows.ts";

/** A gateway that does not know bodies beside their rows refuses rows that have one. */
const CONTENT_TAGS = { inline: 1, blob: 2, parts: 3, beside: 4 } as const;
/** Sequences of blobs have 48 bits. */
const SEQUENCE_END = 2 ** 48;

export function writeContent(writer: ByteWriter, content: Content): void {
  writer.u8(CONTENT_TAGS[content.kind]);
  switch (content.kind) {
    case "inline":
      writer.bytes(content.bytes);
      return;
    case "beside":
      writer.u64(content.guid);
      return;
    case "blob":
      writeOid(writer, content.oid);
      writeNumber(writer, content.lengthBytes);
      return;
    case "parts":
      writer.u64(content.uploadId).varint(content.parts.length);
      for (const part of content.parts) {
        writer.varint(part.number);
        writeNumber(writer, part.lengthBytes);
      }
      return;
    default:
      unreachable(content);
  }
}

export function readContent(reader: ByteReader): Content {
  const tag = reader.u8();
  switch (tag) {
    case CONTENT_TAGS.inline:
      return { kind: "inline", bytes: reader.bytes() };
    case CONTENT_TAGS.beside:
      return { kind: "beside", guid: reader.u64() };
    case CONTENT_TAGS.blob:
      return { kind: "blob", oid: readOid(reader), lengthBytes: readNumber(reader) };
    case CONTENT_TAGS.parts: {
      const uploadId = reader.u64();
      return { kind: "parts", uploadId, parts: readList(reader, () => ({ number: reader.varint(), lengthBytes: readNumber(reader) })) };
    }
    default:
      throw corrupt(`content of unknown kind ${tag}`);
  }
}

export function writeOid(writer: ByteWriter, oid: Oid): void {
  const { epoch, sequence } = parseOid(oid);
  writer.u32(epoch).u64(BigInt(sequence));
}

export function readOid(reader: ByteReader): Oid {
  const epoch = reader.u32();
  const sequence = readNumber(reader);
  if (epoch === 0 || sequence >= SEQUENCE_END) throw corrupt("a name no blob can have");
  return oidOf(epoch, sequence);
}
