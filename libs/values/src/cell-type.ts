import type { ByteReader, ByteWriter } from "@concord/codec";
import type { CellMessageOf, CellModel, CellType } from "./model.ts";

/** A literal of CQL, apart from null. `decimal` is a number with a fraction or an exponent, as written. */
export type Literal =
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "decimal"; readonly text: string }
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "blob"; readonly value: Uint8Array }
  | { readonly kind: "boolean"; readonly value: boolean }
  | { readonly kind: "uuid"; readonly value: string };

/** Why a literal is no value of a type, as "the value given ..." goes on. */
export interface Refused {
  readonly refused: string;
}

/** Everything Concord knows about one column type. */
export interface CellTypeOf<Kind extends CellType, Content = CellModel[Kind]["content"]> {
  /** First byte of a stored value, hashed first for its token. Never changed or used again; 9 is null. */
  readonly tag: number;
  /** What a column takes, for refusals: "a boolean". */
  readonly takes: string;
  /** The order of the values: that of their bytes in stored keys (I1). */
  readonly compare: (left: Content, right: Content) => number;
  /** Size for the limits of rows and keys. */
  readonly bytesOf: (content: Content) => number;
  /** What keeps a content from being stored, as "the value given ..." goes on. */
  readonly problemOf: (content: Content) => string | undefined;
  /** What keeps it from a key even when a cell may have it: "is NaN". */
  readonly keyProblemOf: (content: Content) => string | undefined;
  /** The one form of equal contents, so that equal keys are equal bytes. */
  readonly canonical: (content: Content) => Content;
  /** A text that two contents share exactly when they are equal. */
  readonly keyText: (content: Content) => string;
  /** Bytes in keys: ordered, and no prefix of another's (I1). */
  readonly writeKey: (writer: ByteWriter, content: Content) => void;
  readonly readKey: (reader: ByteReader) => Content;
  /** Bytes in cells, which need no order. */
  readonly writeCell: (writer: ByteWriter, content: Content) => void;
  readonly readCell: (reader: ByteReader) => Content;
  /** What is hashed for a token, after the tag. Equal contents, equal bytes. */
  readonly tokenBytes: (content: Content) => Uint8Array;
  readonly toWire: (content: Content) => CellMessageOf<Kind>;
  /** MALFORMED_REQUEST for what is no value of the type. Shares no memory with the message. */
  readonly fromWire: (message: CellMessageOf<Kind>) => Content;
  readonly fromLiteral: (literal: Literal) => Content | Refused;
  /** Undefined: not a value of this type. */
  readonly fromJavaScript: (value: unknown) => Content | undefined;
  /** `fromJavaScript`, `canonical` and `toWire` in one; given where a type has fewer steps for it. */
  readonly wireOf?: (value: unknown) => CellMessageOf<Kind> | undefined;
  readonly toJavaScript: (content: Content) => CellModel[Kind]["given"];
}
