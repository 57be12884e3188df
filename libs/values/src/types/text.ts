import { readOrderedText, writeOrderedText } from "@concord/codec";
import type { CellTypeOf } from "../cell-type.ts";
import { asItIs, noProblem, otherLiteral } from "./shared.ts";

const encoder = new TextEncoder();

/** UTF-8. */
export const text: CellTypeOf<"text"> = {
  tag: 3,
  takes: "a string",
  compare: compareCodePoints,
  bytesOf: utf8Length,
  problemOf: (content) => (content.isWellFormed() ? undefined : "has half a surrogate pair"),
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: asItIs,
  writeKey: writeOrderedText,
  readKey: readOrderedText,
  writeCell: (writer, content) => void writer.text(content),
  readCell: (reader) => reader.text(),
  tokenBytes: (content) => encoder.encode(content),
  toWire: (content) => ({ textValue: content }),
  fromWire: (message) => message.textValue,
  fromLiteral: (literal) => (literal.kind === "text" ? literal.value : otherLiteral(literal)),
  fromJavaScript: (value) => (typeof value === "string" ? value : undefined),
  toJavaScript: asItIs,
};

/** By code points, as the UTF-8 of stored keys sorts; the plain comparison of texts puts surrogates before U+E000. */
function compareCodePoints(left: string, right: string): number {
  if (left === right) return 0;
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i += 1) {
    const a = left.charCodeAt(i);
    const b = right.charCodeAt(i);
    if (a !== b) return isSurrogate(a) === isSurrogate(b) ? a - b : isSurrogate(a) ? 1 : -1;
  }
  return left.length - right.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xe000;
}

function utf8Length(content: string): number {
  let length = 0;
  for (let i = 0; i < content.length; i += 1) {
    const unit = content.charCodeAt(i);
    if (unit < 0x80) length += 1;
    else if (unit < 0x800) length += 2;
    else if (unit >= 0xd800 && unit < 0xdc00) {
      length += 4;
      i += 1;
    } else length += 3;
  }
  return length;
}
