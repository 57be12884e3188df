import assert from "node:assert/strict";
import { test } from "node:test";
import { changedPackages } from "./changed-packages.ts";

const lock = (packages: object, more: object = {}): string => JSON.stringify({ name: "x", lockfileVersion: 3, ...more, packages });
const BEFORE = {
  "": { name: "x" },
  "libs/some": { dependencies: { kafkajs: "2.2.4" } },
  "node_modules/kafkajs": { version: "2.2.4", integrity: "sha512-a" },
  "node_modules/@scope/one": { version: "1.0.0" },
  "node_modules/level/node_modules/buffer": { version: "6.0.3" },
  "node_modules/buffer": { version: "5.7.1" },
};

test("changed packages: another version, another integrity, one more, one less: its name alone", () => {
  const cases: readonly (readonly [changed: object, names: readonly string[]])[] = [
    [{ ...BEFORE }, []],
    [{ ...BEFORE, "node_modules/kafkajs": { version: "2.2.5", integrity: "sha512-a" } }, ["kafkajs"]],
    [{ ...BEFORE, "node_modules/kafkajs": { version: "2.2.4", integrity: "sha512-b" } }, ["kafkajs"]],
    [{ ...BEFORE, "node_modules/@scope/two": { version: "1.0.0" } }, ["@scope/two"]],
    [{ ...BEFORE, "node_modules/@scope/one": undefined }, ["@scope/one"]],
    [{ ...BEFORE, "node_modules/level/node_modules/buffer": { version: "6.0.4" } }, ["buffer"]],
    [{ ...BEFORE, "libs/some": { dependencies: {} }, "": { name: "y" } }, []],
  ];
  for (const [changed, names] of cases) assert.deepEqual(changedPackages(lock(BEFORE), lock(changed)), new Set(names));
});

test("changed packages: no lock file, no JSON, another format: all", () => {
  for (const other of [undefined, "", "{}", lock(BEFORE, { lockfileVersion: 4 })]) {
    assert.equal(changedPackages(other, lock(BEFORE)), "all");
    assert.equal(changedPackages(lock(BEFORE), other), "all");
  }
});
