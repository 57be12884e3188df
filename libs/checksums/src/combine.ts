// The CRC of A||B from the CRCs of A and B and the length of B: CRC(A) times x^(8 * length of B) modulo the polynomial, plus CRC(B).
// All three CRCs are reflected: the top bit of a register is the coefficient of x^0. A register is two unsigned 32-bit halves, so
// that 64 bits need no BigInt: an object of 10 000 parts combines 10 000 times.
import { assert } from "@concord/runtime";

interface Register {
  readonly high: number;
  readonly low: number;
}

/** Multiplication modulo a polynomial, with the powers x^(2^k) at hand. */
interface Field {
  readonly polynomial: Register;
  /** powers[k] = x^(2^k). */
  readonly powers: readonly Register[];
}

/** Lengths are integers below 2^53, times 8 bits. */
const POWERS = 56;

const CRC32_FIELD = field({ high: 0xedb88320, low: 0 });
const CRC32C_FIELD = field({ high: 0x82f63b78, low: 0 });
const CRC64NVME_FIELD = field({ high: 0x9a6c9329, low: 0xac4bc9b5 });

/** CRC-32 of A||B. */
export function combineCrc32(first: number, second: number, secondBytes: number): number {
  return combine(CRC32_FIELD, { high: first, low: 0 }, { high: second, low: 0 }, secondBytes).high;
}

/** CRC-32C of A||B. */
export function combineCrc32c(first: number, second: number, secondBytes: number): number {
  return combine(CRC32C_FIELD, { high: first, low: 0 }, { high: second, low: 0 }, secondBytes).high;
}

/** CRC-64/NVME of A||B. */
export function combineCrc64nvme(first: bigint, second: bigint, secondBytes: number): bigint {
  const { high, low } = combine(CRC64NVME_FIELD, toRegister(first), toRegister(second), secondBytes);
  return (BigInt(high) << 32n) | BigInt(low);
}

function toRegister(crc: bigint): Register {
  return { high: Number(crc >> 32n), low: Number(crc & 0xffffffffn) };
}

function combine(over: Field, first: Register, second: Register, secondBytes: number): Register {
  const product = multiply(over.polynomial, first, shift(over, secondBytes));
  return { high: (product.high ^ second.high) >>> 0, low: (product.low ^ second.low) >>> 0 };
}

/** x^(8 * bytes). */
function shift(over: Field, bytes: number): Register {
  assert(Number.isSafeInteger(bytes) && bytes >= 0, "a length is an integer");
  let power: Register = { high: 0x80000000, low: 0 };
  // Bit k of the length in bits is bit k - 3 of the length in bytes.
  for (let rest = bytes, k = 3; rest > 0; rest = Math.floor(rest / 2), k += 1) {
    if (rest % 2 === 1) power = multiply(over.polynomial, power, over.powers[k]!);
  }
  return power;
}

/** A 32-bit field lives in the high half (its polynomial has no low half); what is shifted out of it is cut off. */
function multiply(polynomial: Register, a: Register, b: Register): Register {
  const isNarrow = polynomial.low === 0;
  let [high, low, bHigh, bLow] = [0, 0, b.high, b.low];
  for (let bit = 0; bit < (isNarrow ? 32 : 64); bit += 1) {
    const word = bit < 32 ? a.high : a.low;
    if (((word >>> (31 - (bit % 32))) & 1) === 1) {
      high ^= bHigh;
      low ^= bLow;
    }
    const carry = (isNarrow ? bHigh : bLow) & 1;
    bLow = isNarrow ? 0 : (bLow >>> 1) | ((bHigh & 1) << 31);
    bHigh >>>= 1;
    if (carry === 1) {
      bHigh ^= polynomial.high;
      bLow ^= polynomial.low;
    }
  }
  return { high: high >>> 0, low: low >>> 0 };
}

function field(polynomial: Register): Field {
  // x^1 is the second bit from the top.
  const powers: Register[] = [{ high: 0x40000000, low: 0 }];
  while (powers.length < POWERS) powers.push(multiply(polynomial, powers.at(-1)!, powers.at(-1)!));
  return { polynomial, powers };
}
