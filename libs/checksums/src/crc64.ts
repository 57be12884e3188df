// CRC-64/NVME, which S3 adds to what comes without a checksum, so that it is computed for most of the bytes that a gateway receives.
import { crc64Module, LAYOUT, REGISTERS, TABLE_BYTES, WORD_BYTES } from "./crc64-module.ts";

/** Reflected. */
const NVME_POLYNOMIAL = 0x9a6c9329ac4bc9b5n;

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  update(register: bigint, from: number, to: number): bigint;
}

/** What is used of it, since its types come with those of browsers. */
interface WebAssembly {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
}

const { Instance, Module } = (globalThis as unknown as { readonly WebAssembly: WebAssembly }).WebAssembly;
/** One instance for all: it keeps nothing between calls, and there is no await within one (I2). */
const { memory, update } = new Instance(new Module(crc64Module())).exports as Exports;
writeTables();
const input = new Uint8Array(memory.buffer, LAYOUT.input, LAYOUT.inputBytes);

/** CRC-64/NVME, unsigned; with `previous` it goes on from earlier bytes. */
export function crc64nvme(bytes: Uint8Array, previous = 0n): bigint {
  let register = ~previous;
  for (let at = 0; at < bytes.length; at += input.length) {
    const length = Math.min(input.length, bytes.length - at);
    input.set(length === bytes.length ? bytes : bytes.subarray(at, at + length));
    register = update(register, LAYOUT.input, LAYOUT.input + length);
  }
  return BigInt.asUintN(64, ~register);
}

/** Byte `i` of a word is followed by the word's other bytes, and by the words of the other registers where it is in the braid. */
function writeTables(): void {
  let entries = Array.from({ length: 256 }, (_, byte) => ofByte(BigInt(byte)));
  const first = entries;
  const view = new DataView(memory.buffer);
  const write = (tables: number, at: number): void => {
    for (const [byte, crc] of entries.entries()) view.setBigUint64(tables + at * TABLE_BYTES + byte * 8, crc, true);
  };
  for (let zeros = 0; zeros < REGISTERS * WORD_BYTES; zeros += 1) {
    const at = WORD_BYTES - 1 - (zeros % WORD_BYTES);
    if (zeros < WORD_BYTES) write(LAYOUT.wordTables, at);
    if (zeros >= (REGISTERS - 1) * WORD_BYTES) write(LAYOUT.braidTables, at);
    entries = entries.map((crc) => first[Number(crc & 0xffn)]! ^ (crc >> 8n));
  }
}

function ofByte(byte: bigint): bigint {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1n) === 1n ? (crc >> 1n) ^ NVME_POLYNOMIAL : crc >> 1n;
  return crc;
}
