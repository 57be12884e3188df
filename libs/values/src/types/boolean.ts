import type { ByteReader, ByteWriter } from "@concord/codec";
import type { CellTypeOf } from "../cell-type.ts";
import { asItIs, noProblem, otherLiteral } from "./shared.ts";

const write = (writer: ByteWriter, content: boolean): void => void writer.u8(content ? 1 : 0);
const read = (reader: ByteReader): boolean => reader.u8() === 1;

export const boolean: CellTypeOf<"boolean"> = {
  tag: 5,
  takes: "a boolean",
  compare: (left, right) => Number(left) - Number(right),
  bytesOf: () => 1,
  problemOf: noProblem,
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: String,
  writeKey: write,
  readKey: read,
  writeCell: write,
  readCell: read,
  tokenBytes: (content) => Uint8Array.of(content ? 1 : 0),
  toWire: (content) => ({ booleanValue: content }),
  fromWire: (message) => message.booleanValue,
  fromLiteral: (literal) => (literal.kind === "boolean" ? literal.value : otherLiteral(literal)),
  fromJavaScript: (value) => (typeof value === "boolean" ? value : undefined),
  toJavaScript: asItIs,
};
