import { fromHex } from "@concord/runtime";
import type { CellMessage, CellMessageOf, CellModel, CellType } from "../model.ts";
import { CELL_TYPES } from "../table.ts";

/** Messages that are no value of the type: refused with MALFORMED_REQUEST, wherever they come in. */
const REFUSED_MESSAGES: { readonly [Kind in CellType]: readonly CellMessageOf<Kind>[] } = {
  bigint: [],
  int: [],
  text: [],
  blob: [],
  boolean: [],
  double: [],
  timestamp: [],
  uuid: [{ uuidValue: new Uint8Array(0) }, { uuidValue: new Uint8Array(15) }, { uuidValue: new Uint8Array(17) }],
  date: [{ dateValue: -719_163 }, { dateValue: 2_932_897 }, { dateValue: -(2 ** 31) }, { dateValue: 2 ** 31 - 1 }],
  inet: [0, 3, 5, 15, 17].map((length) => ({ inetValue: new Uint8Array(length) })),
  decimal: [
    { unscaled: new Uint8Array(0), scale: 0 },
    { unscaled: new Uint8Array(513), scale: 0 },
    { unscaled: new Uint8Array(512).fill(0x7f), scale: 0 },
    { unscaled: Uint8Array.of(1), scale: 10_001 },
    { unscaled: Uint8Array.of(1), scale: -10_001 },
    { unscaled: Uint8Array.of(1), scale: 2 ** 31 - 1 },
    { unscaled: Uint8Array.of(1), scale: -(2 ** 31) },
  ].map((decimalValue) => ({ decimalValue })),
};

/** As a decoder gives them. */
export function refusedMessages(): { readonly type: CellType; readonly message: CellMessage }[] {
  return CELL_TYPES.flatMap((type) => REFUSED_MESSAGES[type].map((message) => ({ type, message: { ...message, kind: `${type}Value` } })));
}

/** Literals of CQL that a column of the type takes, with what they mean, and literals that it refuses with TYPE_MISMATCH. */
export const LITERALS: {
  readonly [Kind in CellType]: {
    readonly taken: readonly (readonly [string, CellModel[Kind]["content"]])[];
    readonly refused: readonly string[];
  };
} = {
  bigint: { taken: [["-42", -42n]], refused: ["'1'", "1.0", "true", "9223372036854775808"] },
  int: { taken: [["7", 7]], refused: ["2147483648", "1.0", "'7'"] },
  text: { taken: [["'it''s'", "it's"]], refused: ["1", "0x00", "true"] },
  blob: { taken: [["0x00ff", Uint8Array.of(0, 255)]], refused: ["'00'", "1"] },
  boolean: { taken: [["true", true]], refused: ["1", "'true'"] },
  double: {
    taken: [
      ["1.5e1", 15],
      ["-2", -2],
    ],
    refused: ["1e999", "9007199254740993", "'1'"],
  },
  timestamp: { taken: [["1767225600000", 1_767_225_600_000n]], refused: ["'2026-01-01'", "1.0"] },
  uuid: {
    taken: [["0192F0C1-d2e3-7abc-8def-0123456789ab", "0192f0c1d2e37abc8def0123456789ab"]],
    refused: ["'0192f0c1-d2e3-7abc-8def-0123456789ab'", "1"],
  },
  date: {
    taken: [
      ["'1970-01-02'", 1],
      ["'2024-02-29'", 19_782],
    ],
    refused: [
      "'2023-02-29'",
      "'2026-13-01'",
      "'2026-1-1'",
      "'0000-12-31'",
      "'10000-01-01'",
      "'2026-11-22T00:00:00Z'",
      "'today'",
      "20000",
      "1.0",
    ],
  },
  inet: {
    taken: [
      ["'192.0.2.1'", Uint8Array.of(192, 0, 2, 1)],
      ["'::ffff:192.0.2.1'", Uint8Array.of(192, 0, 2, 1)],
      ["'2001:DB8:0::1'", fromHex("20010db8000000000000000000000001")],
    ],
    refused: ["'256.0.0.1'", "'1.2.3'", "'01.2.3.4'", "'1::2::3'", "'fe80::1%eth0'", "'example.org'", "''", "1", "0xc0000201"],
  },
  decimal: {
    taken: [
      ["-12.50", "-12.5"],
      ["100", "100"],
      ["1.25e-30", "1.25e-30"],
      ["1e999", "1e999"],
    ],
    refused: ["'1.5'", "1e10001", "1e-10001", "9".repeat(1001), "true"],
  },
};
