import { compareBytes, readOrderedBytes, writeOrderedBytes } from "@concord/codec";
import type { CellTypeOf } from "../cell-type.ts";
import { asItIs, noProblem, otherLiteral } from "./shared.ts";

export const blob: CellTypeOf<"blob"> = {
  tag: 4,
  takes: "a Uint8Array",
  compare: compareBytes,
  bytesOf: (content) => content.length,
  problemOf: noProblem,
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: (content) => {
    let text = "";
    for (const byte of content) text += String.fromCharCode(byte);
    return text;
  },
  writeKey: writeOrderedBytes,
  readKey: readOrderedBytes,
  writeCell: (writer, content) => void writer.bytes(content),
  readCell: (reader) => reader.bytes().slice(),
  tokenBytes: asItIs,
  toWire: (content) => ({ blobValue: content }),
  // A copy: the decoder's bytes are a view of the whole frame.
  fromWire: (message) => new Uint8Array(message.blobValue),
  fromLiteral: (literal) => (literal.kind === "blob" ? literal.value : otherLiteral(literal)),
  fromJavaScript: (value) => (value instanceof Uint8Array ? value : undefined),
  toJavaScript: asItIs,
};
