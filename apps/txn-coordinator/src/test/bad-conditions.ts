// Bad conditions of an Execute (UN20).
import type { ErrorCode } from "@concord/runtime";
import { id, many, statement, type Case } from "./bad-input.ts";
import { albumKey, write } from "./coordinator-fixture.ts";

const absent = (key: object): object => ({ kind: "CONDITION_KIND_ABSENT", key });
const columnsEqual = (key: object, ...names: string[]): object => ({
  kind: "CONDITION_KIND_COLUMNS_EQUAL",
  key,
  columns: names.map((name) => ({ name, value: { intValue: 1 } })),
});
const conditional = (what: string, code: ErrorCode, conditions: readonly object[], writes: readonly object[] = []): Case => ({
  method: "Execute",
  what,
  code,
  request: (turn) => ({ transactionId: id(turn), conditional: { conditions, writes } }),
});

export const CONDITION_CASES: readonly Case[] = [
  {
    method: "Execute",
    what: "UPDATE IF of a plain table",
    code: "USE_TRANSACTION",
    request: (turn) => ({ transactionId: id(turn), ...statement("UPDATE views SET seen = 1 WHERE id = 1 IF EXISTS") }),
  },
  {
    method: "Execute",
    what: "IF of a key column",
    code: "MALFORMED_REQUEST",
    request: (turn) => ({ transactionId: id(turn), ...statement("UPDATE albums SET photos = 1 WHERE id = 1 IF id = 1") }),
  },
  conditional("no conditions", "MALFORMED_REQUEST", [], [write("INSERT", albumKey(3))]),
  conditional("a condition without a kind", "MALFORMED_REQUEST", [{ key: albumKey(3) }]),
  conditional("a condition without a row", "MALFORMED_REQUEST", [{ kind: "CONDITION_KIND_ABSENT" }]),
  conditional("a condition that compares no column", "MALFORMED_REQUEST", [columnsEqual(albumKey(3))]),
  conditional("columns that are not compared", "MALFORMED_REQUEST", [
    { ...columnsEqual(albumKey(3), "photos"), kind: "CONDITION_KIND_ABSENT" },
  ]),
  conditional("a condition on a key column", "MALFORMED_REQUEST", [columnsEqual(albumKey(3), "id")]),
  conditional("a condition on an unknown column", "COLUMN_UNKNOWN", [columnsEqual(albumKey(3), "none")]),
  conditional("a condition on a plain table", "USE_TRANSACTION", [absent({ table: "views", partition: [{ bigintValue: 1n }] })]),
  conditional("a condition on a system table", "SYSTEM_TABLE", [absent({ table: "concord_groups", partition: [{ textValue: "groups" }] })]),
  conditional(
    "too many conditions",
    "LIMIT_EXCEEDED",
    many(1001, () => absent(albumKey(3))),
  ),
  {
    method: "Execute",
    what: "a condition on a row of another group",
    code: "GROUP_MISMATCH",
    request: (turn) => ({
      transactionId: id(turn),
      conditional: { conditions: [absent(albumKey(1)), absent(albumKey(turn.farAlbum))], writes: [] },
    }),
  },
  {
    method: "Execute",
    what: "both writes and conditional writes",
    code: "MALFORMED_REQUEST",
    request: (turn) => ({
      transactionId: id(turn),
      writes: [write("INSERT", albumKey(3))],
      conditional: { conditions: [absent(albumKey(3))] },
    }),
  },
];
