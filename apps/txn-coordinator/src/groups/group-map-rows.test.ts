import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryRowStore } from "@concord/port-contracts";
import type { CellImage, RowImage, RowPage } from "@concord/ports";
import { mutationOf } from "@concord/rows-wire";
import { timestampUsOf } from "@concord/runtime";
import { evenGroupMap, readGroupMap } from "@concord/schema";
import { groupMapWrites } from "./group-map-rows.ts";

/** Answers bytes as a peer's answer has them: views of one larger Buffer. */
class RowsInBuffers extends MemoryRowStore {
  override async readRange(range: Parameters<MemoryRowStore["readRange"]>[0]): Promise<RowPage> {
    const page = await super.readRange(range);
    return { ...page, rows: page.rows.map(inBuffers) };
  }
}

function inBuffers(image: RowImage): RowImage {
  return { ...image, cells: new Map([...image.cells].map(([name, cell]) => [name, viewed(cell)])) };
}

function viewed(cell: CellImage): CellImage {
  if (cell.value?.kind !== "blob") return cell;
  const larger = Buffer.concat([Buffer.alloc(64, 7), cell.value.value]);
  return { ...cell, value: { kind: "blob", value: larger.subarray(64) } };
}

test("[TX2] group map: tokens that are views of larger memory: the ranges as they were written, the same at every coordinator", async () => {
  const rows = new RowsInBuffers();
  const map = evenGroupMap(6, ["a", "b", "c"]);
  await rows.apply(groupMapWrites(map).map(({ write }) => mutationOf(write, timestampUsOf(1n))));
  assert.deepEqual(await readGroupMap(rows, 1000), { version: map.version, groups: map.groups });
});
