import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { lockOf, type Lock } from "./image-lock.ts";
import { componentsOf, copiedContracts, licensesOf, sbomOf } from "./sbom.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const WHOLE = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as Lock;
/** One that needs others, and two with binaries for platforms other than this one. */
const DEPENDENCIES = { level: "10.0.0", "@node-rs/crc32": "1.10.8", koffi: "3.3.4" };
const LOCK = lockOf(WHOLE, { name: "concord-image", version: "1.2.3", license: "Apache-2.0", dependencies: DEPENDENCIES });

interface Sbom {
  readonly components: readonly { readonly "bom-ref": string; readonly hashes: readonly { readonly content: string }[] }[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

function sbom(): Sbom {
  const parts = { components: componentsOf(LOCK), copied: copiedContracts() };
  return sbomOf({ name: "concord", version: "1.2.3" }, parts, new Date(0)) as Sbom;
}

test("SBOM: what each package depends on is in it, and all of it is reached from the product", () => {
  const { components, dependencies } = sbom();
  const known = new Set(["concord", ...components.map((each) => each["bom-ref"])]);
  const needs = new Map(dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
  const reached = new Set<string>();
  const visit = (ref: string): void => {
    if (reached.has(ref)) return;
    reached.add(ref);
    for (const needed of needs.get(ref) ?? []) visit(needed);
  };
  visit("concord");
  assert.deepEqual([...reached].toSorted(), [...known].toSorted());
  assert.ok(needs.get("pkg:npm/level@10.0.0")!.some((needed) => needed.startsWith("pkg:npm/abstract-level@")));
});

test("SBOM: contracts that are copies of others' are in it, with their hash", () => {
  const { components } = sbom();
  const status = components.find((each) => each["bom-ref"] === "google/rpc/status.proto");
  assert.match(status!.hashes[0]!.content, /^[0-9a-f]{64}$/);
});

test("licences: binaries for platforms that are not installed here have the text of the package they belong to", () => {
  const text = licensesOf(componentsOf(LOCK));
  assert.match(text, /@node-rs\/crc32-darwin-arm64 1\.10\.8/);
  assert.doesNotMatch(text, /no licence file/);
});
