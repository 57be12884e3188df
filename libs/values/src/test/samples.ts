import { fromHex } from "@concord/runtime";
import type { CellModel, CellOf, CellType, CellValue } from "../model.ts";
import { CELL_TYPES } from "../table.ts";

export interface Sample<Kind extends CellType> {
  readonly content: CellModel[Kind]["content"];
  /** What JavaScript is given for it. */
  readonly given: CellModel[Kind]["given"];
  /** Golden: its bytes in a stored key, tag first, in hex. */
  readonly key: string;
  /** Golden: its token. */
  readonly token: string;
}

/** Values of every type in ascending order, the edges among them. A type without samples does not compile; tests go through all. */
export const SAMPLES: { readonly [Kind in CellType]: readonly [Sample<Kind>, ...Sample<Kind>[]] } = {
  bigint: [
    { content: -(1n << 63n), given: -(1n << 63n), key: "010000000000000000", token: "2367140522139129587" },
    { content: -1n, given: -1n, key: "017fffffffffffffff", token: "11526982356897482483" },
    { content: 42n, given: 42n, key: "01800000000000002a", token: "3681281524940339128" },
    { content: (1n << 63n) - 1n, given: (1n << 63n) - 1n, key: "01ffffffffffffffff", token: "1342635462938071101" },
  ],
  int: [
    { content: -(2 ** 31), given: -(2 ** 31), key: "0200000000", token: "9047732623926037072" },
    { content: -7, given: -7, key: "027ffffff9", token: "15974708455629303352" },
    { content: 2 ** 31 - 1, given: 2 ** 31 - 1, key: "02ffffffff", token: "7124986527015418229" },
  ],
  text: [
    { content: "", given: "", key: "030001", token: "11392303742345289485" },
    { content: "a\0b", given: "a\0b", key: "036100ff620001", token: "15722483406994881786" },
    { content: "grüße\u0000😀", given: "grüße\u0000😀", key: "036772c3bcc39f6500fff09f98800001", token: "14106182623351139238" },
    { content: "holiday", given: "holiday", key: "03686f6c696461790001", token: "15979559441874666762" },
    { content: "！", given: "！", key: "03efbc810001", token: "6768291734081317508" },
    { content: "😀", given: "😀", key: "03f09f98800001", token: "16777105969725182971" },
  ],
  blob: [
    { content: Uint8Array.of(), given: Uint8Array.of(), key: "040001", token: "12068277932970688460" },
    { content: Uint8Array.of(0, 255), given: Uint8Array.of(0, 255), key: "0400ffff0001", token: "114224292293660197" },
    { content: Uint8Array.of(0, 255, 1, 0), given: Uint8Array.of(0, 255, 1, 0), key: "0400ffff0100ff0001", token: "6015928881111696032" },
  ],
  boolean: [
    { content: false, given: false, key: "0500", token: "5011786938092151304" },
    { content: true, given: true, key: "0501", token: "10959486950674504380" },
  ],
  double: [
    { content: -Infinity, given: -Infinity, key: "06000fffffffffffff", token: "10697921500050136340" },
    { content: -0.1, given: -0.1, key: "064046666666666665", token: "387517470601864594" },
    { content: 0, given: 0, key: "068000000000000000", token: "12288432664293486219" },
    { content: 1.5, given: 1.5, key: "06bff8000000000000", token: "10366637424683664921" },
  ],
  timestamp: [
    { content: -(1n << 63n), given: -(1n << 63n), key: "070000000000000000", token: "5472542111092035388" },
    { content: 0n, given: new Date(0), key: "078000000000000000", token: "15139625112543374227" },
    { content: 1_767_225_600_000n, given: new Date(1_767_225_600_000), key: "078000019b76daa800", token: "8158484722744253607" },
  ],
  uuid: [
    {
      content: "00112233445566778899aabbccddeeff",
      given: "00112233-4455-6677-8899-aabbccddeeff",
      key: "0800112233445566778899aabbccddeeff",
      token: "1154713267368565129",
    },
    {
      content: "0192f0c1d2e37abc8def0123456789ab",
      given: "0192f0c1-d2e3-7abc-8def-0123456789ab",
      key: "080192f0c1d2e37abc8def0123456789ab",
      token: "23196611778079427",
    },
  ],
  date: [
    { content: -719_162, given: "0001-01-01", key: "0a7ff506c6", token: "8364071022504323354" },
    { content: -1, given: "1969-12-31", key: "0a7fffffff", token: "17842226473597890012" },
    { content: 0, given: "1970-01-01", key: "0a80000000", token: "16668313821179378006" },
    { content: 11_016, given: "2000-02-29", key: "0a80002b08", token: "17301445716977365256" },
    { content: 2_932_896, given: "9999-12-31", key: "0a802cc0a0", token: "17111686695892415129" },
  ],
  inet: [
    { content: Uint8Array.of(0, 0, 0, 0), given: "0.0.0.0", key: "0b0400000000", token: "14717795455860508379" },
    { content: Uint8Array.of(192, 0, 2, 1), given: "192.0.2.1", key: "0b04c0000201", token: "5868429407797664285" },
    { content: Uint8Array.of(255, 255, 255, 255), given: "255.255.255.255", key: "0b04ffffffff", token: "10023005496230464032" },
    { content: new Uint8Array(16), given: "::", key: "0b1000000000000000000000000000000000", token: "15995818645646521721" },
    {
      content: fromHex("20010db8000000000000000000000001"),
      given: "2001:db8::1",
      key: "0b1020010db8000000000000000000000001",
      token: "5713652588780385349",
    },
    {
      content: fromHex("20010db8000000000001000000000001"),
      given: "2001:db8::1:0:0:1",
      key: "0b1020010db8000000000001000000000001",
      token: "8282638037197495360",
    },
  ],
  decimal: [
    { content: "-1e10000", given: "-1e10000", key: "0c007fffd8eef4ff", token: "17279283384662497902" },
    { content: "-12.5", given: "-12.5", key: "0c007ffffffdf2ccff", token: "14013791943244951819" },
    { content: "-12", given: "-12", key: "0c007ffffffdf2ff", token: "14560028980855803382" },
    { content: "-0.001", given: "-0.001", key: "0c0080000001f4ff", token: "11665373679509674767" },
    { content: "0", given: "0", key: "0c01", token: "264106709246436513" },
    { content: "1e-10000", given: "1e-10000", key: "0c027fffd8f10b00", token: "14138021654046322772" },
    { content: "1", given: "1", key: "0c02800000010b00", token: "9308083786639887222" },
    { content: "1.01", given: "1.01", key: "0c02800000010b0b00", token: "8684739095630133875" },
    { content: "100", given: "100", key: "0c02800000030b00", token: "7199543763362845949" },
    {
      content: "123456789012345678901234567890.5",
      given: "123456789012345678901234567890.5",
      key: "0c028000001e0d23394f5b0d23394f5b0d23394f5b3300",
      token: "16811357778844141051",
    },
  ],
};

/** The samples of one type as cells. */
export function sampleCells(type: CellType): CellValue[] {
  return SAMPLES[type].map(({ content }) => ({ kind: type, value: content }) as CellOf<CellType>);
}

/** One cell of every type, by column name: as what a row with a column of every type holds. */
export function rowOfEveryType(): Record<string, CellValue> {
  return Object.fromEntries(CELL_TYPES.map((type) => [`${type}_column`, sampleCells(type).at(-1)!]));
}
