import assert from "node:assert/strict";
import { test } from "node:test";
import { renderTable } from "./report.ts";

test("bench: a table: columns line up, numbers to the right", () => {
  assert.equal(
    renderTable([
      ["system", "tx/s"],
      ["a", "7"],
      ["longer one", "1234"],
    ]),
    "system      tx/s\n----------  ----\na              7\nlonger one  1234",
  );
});
