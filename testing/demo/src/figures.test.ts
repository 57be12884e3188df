import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { EVERYTHING, planFromBase, PORT_BASE } from "@concord/constellation";
import { settled } from "./figures.ts";
import { samplesOf } from "./readme.ts";

test("settled: a check that comes to hold: its success; one that never does: the last problem", async () => {
  let left = 2;
  assert.equal(await settled(() => Promise.resolve((left -= 1) > 0 ? "not yet" : undefined), 5_000), undefined);
  assert.equal(await settled(() => Promise.resolve("never"), 0), "never");
});

test("README: its samples: found, one per service at least, each on ports that npm start prints", () => {
  const samples = samplesOf(readFileSync(resolve(import.meta.dirname, "../../../README.md"), "utf8"));
  assert.ok(samples.length >= 4);
  const printed = planFromBase(PORT_BASE, EVERYTHING).flatMap(({ address, httpAddress }) => [address, httpAddress ?? []].flat());
  for (const sample of samples) {
    const used = sample.match(/127\.0\.0\.1:\d+/g) ?? [];
    assert.ok(used.length > 0);
    assert.deepEqual(
      used.filter((address) => !printed.includes(address)),
      [],
    );
  }
});

test("README: links: every file and folder it points to exists", () => {
  const root = resolve(import.meta.dirname, "../../..");
  const links = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/\]\((?!http)([\w./-]+)\)/g)].map((match) => match[1]!);
  assert.ok(links.length > 5);
  assert.deepEqual(
    links.filter((link) => !existsSync(join(root, link))),
    [],
  );
});
