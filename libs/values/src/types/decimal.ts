import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { fromHex, toHex } from "@concord/runtime";
import type { CellTypeOf } from "../cell-type.ts";
import { asItIs, malformed, noProblem, otherLiteral } from "./shared.ts";

/** Significant digits. Their key bytes stay below the limit of a key value. */
const DIGITS_MAX = 1000;
/** Digits behind the point, or zeros before it. CQL has 2^31; here a plain notation of any decimal stays a short text. */
const SCALE_MAX = 10_000;
/** More than any number of `DIGITS_MAX` digits has, zeros at its end included. */
const UNSCALED_BYTES_MAX = 512;
/** Zeros that the text writes out; beyond them it has an exponent. */
const PADDING_MAX = 20;
const LIMITS = `has more than ${DIGITS_MAX} digits or a scale beyond ${SCALE_MAX}`;
const TEXT = /^([+-]?)(\d+)(?:\.(\d*))?(?:e([+-]?\d{1,6}))?$/i;

const [NEGATIVE, ZERO, POSITIVE] = [0, 1, 2];
const TERMINATOR = 0;
const EXPONENT_BIAS = 0x80000000;

/** A number is 0.`digits` * 10^`exponent`; digits neither begin nor end with 0, and zero has none. */
interface Scientific {
  readonly isNegative: boolean;
  readonly digits: string;
  readonly exponent: number;
}

/**
 * A decimal number as its canonical text (docs/decisions/0013-decimal-canonical-form.md): equal numbers are equal texts, so 1.0, 1.00 and 1 are one value and stored as
 * "1". In keys: sign, exponent, pairs of digits, terminator; all but the sign complemented for negative numbers.
 */
export const decimal: CellTypeOf<"decimal"> = {
  tag: 12,
  takes: `a decimal number as string, bigint or whole number, of at most ${DIGITS_MAX} digits and a scale up to ${SCALE_MAX}`,
  compare,
  bytesOf: (content) => Math.ceil(scientificOf(content).digits.length / 2) + 6,
  problemOf: (content) => {
    const scientific = scientificOrNone(content);
    if (scientific === undefined || textOf(scientific) !== content) return "is no canonical decimal";
    return fits(scientific) ? undefined : LIMITS;
  },
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: asItIs,
  writeKey: write,
  readKey: read,
  writeCell: write,
  readCell: read,
  tokenBytes: (content) => {
    const { unscaled, scale } = unscaledOf(scientificOf(content));
    const bytes = new Uint8Array(4 + unscaled.length);
    new DataView(bytes.buffer).setInt32(0, scale);
    bytes.set(unscaled, 4);
    return bytes;
  },
  toWire: (content) => ({ decimalValue: unscaledOf(scientificOf(content)) }),
  fromWire: ({ decimalValue: { unscaled, scale } }) => {
    if (unscaled.length === 0 || unscaled.length > UNSCALED_BYTES_MAX) {
      throw malformed(`a decimal has 1 to ${UNSCALED_BYTES_MAX} unscaled bytes, not ${unscaled.length}`);
    }
    const whole = BigInt.asIntN(8 * unscaled.length, BigInt(`0x${toHex(unscaled)}`));
    const scientific = normalized(whole < 0n, (whole < 0n ? -whole : whole).toString(), -scale);
    if (!fits(scientific)) throw malformed(`a decimal ${LIMITS}`);
    return textOf(scientific);
  },
  fromLiteral: (literal) => {
    if (literal.kind !== "integer" && literal.kind !== "decimal") return otherLiteral(literal);
    return storable(literal.kind === "integer" ? literal.value.toString() : literal.text) ?? { refused: LIMITS };
  },
  fromJavaScript: (value) => {
    if (typeof value === "string") return storable(value);
    return typeof value === "bigint" || Number.isSafeInteger(value) ? storable(String(value)) : undefined;
  },
  toJavaScript: asItIs,
};

function storable(text: string): string | undefined {
  const scientific = scientificOrNone(text);
  return scientific !== undefined && fits(scientific) ? textOf(scientific) : undefined;
}

function fits(scientific: Scientific): boolean {
  return scientific.digits.length <= DIGITS_MAX && Math.abs(scaleOf(scientific)) <= SCALE_MAX;
}

function scaleOf({ digits, exponent }: Scientific): number {
  return digits.length - exponent;
}

/** Of a content, which is a decimal. */
function scientificOf(content: string): Scientific {
  return scientificOrNone(content) ?? normalized(false, "", 0);
}

function scientificOrNone(text: string): Scientific | undefined {
  const matched = TEXT.exec(text);
  if (matched === null) return undefined;
  const [, sign, whole, fraction = "", exponent = "0"] = matched;
  return normalized(sign === "-", whole! + fraction, Number(exponent) - fraction.length);
}

/** The number `digits` * 10^`exponent`. */
function normalized(isNegative: boolean, digits: string, exponent: number): Scientific {
  let start = 0;
  let end = digits.length;
  while (start < end && digits[start] === "0") start += 1;
  while (end > start && digits[end - 1] === "0") end -= 1;
  if (start === end) return { isNegative: false, digits: "", exponent: 0 };
  return { isNegative, digits: digits.slice(start, end), exponent: exponent + digits.length - start };
}

/** The canonical text: without an exponent unless it takes more than `PADDING_MAX` zeros to do without. */
function textOf({ isNegative, digits, exponent }: Scientific): string {
  if (digits === "") return "0";
  const sign = isNegative ? "-" : "";
  const padding = exponent <= 0 ? -exponent : Math.max(0, exponent - digits.length);
  if (padding > PADDING_MAX) {
    const fraction = digits.length === 1 ? "" : `.${digits.slice(1)}`;
    return `${sign}${digits[0]}${fraction}e${exponent - 1}`;
  }
  if (exponent <= 0) return `${sign}0.${"0".repeat(padding)}${digits}`;
  if (exponent >= digits.length) return `${sign}${digits}${"0".repeat(padding)}`;
  return `${sign}${digits.slice(0, exponent)}.${digits.slice(exponent)}`;
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  const [a, b] = [scientificOf(left), scientificOf(right)];
  const [signA, signB] = [signOf(a), signOf(b)];
  if (signA !== signB) return signA - signB;
  const size = a.exponent - b.exponent || (a.digits < b.digits ? -1 : 1);
  return signA === NEGATIVE ? -size : size;
}

function signOf({ isNegative, digits }: Scientific): number {
  if (digits === "") return ZERO!;
  return (isNegative ? NEGATIVE : POSITIVE)!;
}

function write(writer: ByteWriter, content: string): void {
  const scientific = scientificOf(content);
  const sign = signOf(scientific);
  writer.u8(sign);
  if (sign === ZERO) return;
  const { digits, exponent } = scientific;
  const mask = sign === NEGATIVE ? 0xff : 0;
  const ordered = exponent + EXPONENT_BIAS;
  writer.u32(sign === NEGATIVE ? ~ordered >>> 0 : ordered);
  // A pair is 1 to 100, so that the terminator, 0, comes before every continuation.
  for (let at = 0; at < digits.length; at += 2) writer.u8((Number(digits.slice(at, at + 2).padEnd(2, "0")) + 1) ^ mask);
  writer.u8(TERMINATOR ^ mask);
}

function read(reader: ByteReader): string {
  const sign = reader.u8();
  if (sign === ZERO) return "0";
  if (sign !== NEGATIVE && sign !== POSITIVE) throw corrupt(`a decimal with sign ${sign}`);
  const mask = sign === NEGATIVE ? 0xff : 0;
  const ordered = reader.u32();
  const exponent = (sign === NEGATIVE ? ~ordered >>> 0 : ordered) - EXPONENT_BIAS;
  let pairs = "";
  for (let pair = reader.u8() ^ mask; pair !== TERMINATOR; pair = reader.u8() ^ mask) {
    if (pair > 100 || pairs.length > DIGITS_MAX) throw corrupt("the digits of a decimal");
    pairs += (pair - 1).toString().padStart(2, "0");
  }
  const digits = pairs.endsWith("0") ? pairs.slice(0, -1) : pairs;
  const scientific: Scientific = { isNegative: sign === NEGATIVE, digits, exponent };
  if (digits === "" || digits.startsWith("0") || digits.endsWith("0") || !fits(scientific))
    throw corrupt("a decimal that is not canonical");
  return textOf(scientific);
}

/** As CQL and Java have decimals: two's complement of as few bytes as hold it, big-endian, and the number of digits behind the point. */
function unscaledOf(scientific: Scientific): { unscaled: Uint8Array; scale: number } {
  const whole = BigInt(scientific.digits === "" ? "0" : scientific.digits);
  const bits = whole.toString(2).length;
  // -128 has the eight bits of 128, but its sign is among them.
  const isPowerOfTwo = (whole & (whole - 1n)) === 0n;
  const length = Math.floor((scientific.isNegative && isPowerOfTwo ? bits - 1 : bits) / 8) + 1;
  const complement = BigInt.asUintN(8 * length, scientific.isNegative ? -whole : whole);
  return { unscaled: fromHex(complement.toString(16).padStart(2 * length, "0")), scale: scaleOf(scientific) };
}
