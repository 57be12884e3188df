import assert from "node:assert/strict";
import { test } from "node:test";
import { openFilesMax } from "./open-files.ts";

const limits = (soft: string): string =>
  `Limit                     Soft Limit           Hard Limit           Units     \nMax open files            ${soft}                 4096                 files     \n`;

test("open files: the soft limit; unlimited, another system: none", () => {
  assert.equal(
    openFilesMax(() => limits("1024")),
    1024,
  );
  assert.equal(
    openFilesMax(() => limits("unlimited")),
    undefined,
  );
  const none = (): string => {
    throw new Error("ENOENT");
  };
  assert.equal(openFilesMax(none), undefined);
});
