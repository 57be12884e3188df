// The WebAssembly module behind crc64nvme: a reflected CRC-64 over bytes in its memory, by tables that crc64.ts writes there. Four registers take
// every fourth word each (zlib's braid), so that the lookups of one do not wait for those of another. Emitted here: no compiler, no binary file.

/** Tables of a word: one per byte, 256 entries of 8 bytes each. */
export const TABLE_BYTES = 256 * 8;
export const WORD_BYTES = 8;
export const REGISTERS = 4;
/** What lies where in the module's memory. The braid's tables take a word over those of the other registers, the word's tables to the next word. */
export const LAYOUT = {
  braidTables: 0,
  wordTables: WORD_BYTES * TABLE_BYTES,
  input: 2 * WORD_BYTES * TABLE_BYTES,
  inputBytes: 64 * 1024,
} as const;

const PAGE_BYTES = 64 * 1024;
const ROUND_BYTES = REGISTERS * WORD_BYTES;
const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
const SECTION = { type: 1, function: 3, memory: 5, export: 7, code: 10 } as const;
const TYPE = { i32: 0x7f, i64: 0x7e, function: 0x60, none: 0x40 } as const;
const EXPORTED = { function: 0, memory: 2 } as const;
const OP = {
  loop: 0x03,
  if: 0x04,
  end: 0x0b,
  branch: 0x0c,
  branchIf: 0x0d,
  get: 0x20,
  set: 0x21,
  i64Load: 0x29,
  i64LoadByte: 0x31,
  i32Const: 0x41,
  i64Const: 0x42,
  i32AtLeast: 0x4f,
  i32Add: 0x6a,
  i32Sub: 0x6b,
  i32And: 0x71,
  i64Xor: 0x85,
  i64ShiftLeft: 0x86,
  i64ShiftRight: 0x88,
  i32OfI64: 0xa7,
} as const;

type Code = readonly number[];

/** LEB128 of what is not negative. */
function unsigned(value: number): Code {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)];
}

/** LEB128 of a constant that is not negative: with one more bit, of its sign. */
function signed(value: number): Code {
  return value < 0x40 ? [value] : [(value & 0x7f) | 0x80, ...signed(value >>> 7)];
}

const list = (items: readonly Code[]): Code => [...unsigned(items.length), ...items.flat()];
const sized = (code: Code): Code => [...unsigned(code.length), ...code];
const text = (name: string): Code => sized([...new TextEncoder().encode(name)]);
const get = (local: number): Code => [OP.get, ...unsigned(local)];
const set = (local: number, value: Code): Code => [...value, OP.set, ...unsigned(local)];
const i32 = (value: number): Code => [OP.i32Const, ...signed(value)];
const i64 = (value: number): Code => [OP.i64Const, ...signed(value)];
const xor = (a: Code, b: Code): Code => [...a, ...b, OP.i64Xor];
/** A word at `address` + `offset`; the alignment is a hint. */
const load = (address: Code, offset: number): Code => [...address, OP.i64Load, 3, ...unsigned(offset)];

// Parameters and locals of the function.
const CRC = 0;
const AT = 1;
const END = 2;
const register = (at: number): number => 3 + at;
const word = (at: number): number => 3 + REGISTERS + at;

const step = (bytes: number): Code => set(AT, [...get(AT), ...i32(bytes), OP.i32Add]);
/** The address of an entry: byte `at` of a word, times 8. */
const entry = (local: number, at: number): Code => [
  ...get(local),
  ...(at === 0 ? [...i64(3), OP.i64ShiftLeft] : [...i64(8 * at - 3), OP.i64ShiftRight]),
  OP.i32OfI64,
  ...i32(0xff << 3),
  OP.i32And,
];

/** What a word leaves in its register. */
function lookup(local: number, tables: number): Code {
  const entries = Array.from({ length: WORD_BYTES }, (_, at) => load(entry(local, at), tables + at * TABLE_BYTES));
  return entries.reduce(xor);
}

const each = (code: (at: number) => Code): Code => Array.from({ length: REGISTERS }, (_, at) => code(at)).flat();

const left: Code = [...get(END), ...get(AT), OP.i32Sub];
const when = (condition: Code, body: Code): Code => [...condition, OP.if, TYPE.none, ...body, OP.end];
const twoRoundsLeft: Code = [...left, ...i32(2 * ROUND_BYTES), OP.i32AtLeast];

/** All rounds but one by the braid; the last one is taken word by word, which joins the registers. */
const rounds = when(twoRoundsLeft, [
  ...each((at) => set(register(at), at === 0 ? get(CRC) : i64(0))),
  OP.loop,
  TYPE.none,
  ...each((at) => set(word(at), xor(load(get(AT), at * WORD_BYTES), get(register(at))))),
  ...each((at) => set(register(at), lookup(word(at), LAYOUT.braidTables))),
  ...step(ROUND_BYTES),
  ...twoRoundsLeft,
  OP.branchIf,
  0,
  OP.end,
  ...set(CRC, i64(0)),
  ...each((at) => [
    ...set(word(0), xor(xor(load(get(AT), at * WORD_BYTES), get(register(at))), get(CRC))),
    ...set(CRC, lookup(word(0), LAYOUT.wordTables)),
  ]),
  ...step(ROUND_BYTES),
]);

/** Repeats `body` while as many bytes are left as it takes. */
function whileLeft(bytesTaken: number, body: Code): Code {
  const areLeft: Code = [...left, ...i32(bytesTaken), OP.i32AtLeast];
  return [OP.loop, TYPE.none, ...when(areLeft, [...body, ...step(bytesTaken), OP.branch, 1]), OP.end];
}

const words = whileLeft(WORD_BYTES, [...set(word(0), xor(load(get(AT), 0), get(CRC))), ...set(CRC, lookup(word(0), LAYOUT.wordTables))]);

/** The last table of a word is that of its last byte: of a byte alone. */
const bytes = whileLeft(1, [
  ...set(word(0), xor([...get(AT), OP.i64LoadByte, 0, 0], get(CRC))),
  ...set(CRC, xor(load(entry(word(0), 0), LAYOUT.wordTables + (WORD_BYTES - 1) * TABLE_BYTES), [...get(CRC), ...i64(8), OP.i64ShiftRight])),
]);

/** Exports `memory` and `update(register: i64, from: i32, to: i32): i64`. */
export function crc64Module(): Uint8Array<ArrayBuffer> {
  const locals = list([[...unsigned(2 * REGISTERS), TYPE.i64]]);
  const body = [...locals, ...rounds, ...words, ...bytes, ...get(CRC), OP.end];
  const pages = Math.ceil((LAYOUT.input + LAYOUT.inputBytes) / PAGE_BYTES);
  const section = (id: number, items: readonly Code[]): Code => [id, ...sized(list(items))];
  return Uint8Array.from([
    ...HEADER,
    ...section(SECTION.type, [[TYPE.function, ...list([[TYPE.i64], [TYPE.i32], [TYPE.i32]]), ...list([[TYPE.i64]])]]),
    ...section(SECTION.function, [[0]]),
    ...section(SECTION.memory, [[0, ...unsigned(pages)]]),
    ...section(SECTION.export, [
      [...text("memory"), EXPORTED.memory, 0],
      [...text("update"), EXPORTED.function, 0],
    ]),
    ...section(SECTION.code, [sized(body)]),
  ]);
}
