// Each form of a function is seeded once and counted; the protocol libs that have their assertions keep them.
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";
import { countIn, countInLib } from "./count.ts";
import { ASSERTION_FAULTS } from "./faults/faults.ts";
import { shareOf } from "./share.ts";
import { ASSERTED_LIBS, ASSERTIONS_PER_FUNCTION_MIN } from "./protocol-libs.ts";

const ROOT = resolve(import.meta.dirname, "../..");

const FUNCTIONS: readonly string[] = [
  "export function f(): void {\n}",
  "async function f<T>(\n  a: T,\n): Promise<T> {\n}",
  "export async function* f(): AsyncGenerator<number> {\n}",
  "export const f = (a: number): number => a;",
  "const f = async (\n  a: number,\n): Promise<number> => a;",
  "class A {\n  constructor(options: Options) {\n  }\n}",
  "class A {\n  async #f(a: number): Promise<{ kind: 1 }> {\n  }\n}",
  "class A {\n  #f<Reply>(\n    a: Reply,\n  ): Reply {\n  }\n}",
  "class A {\n  get size(): number {\n  }\n}",
  "class A {\n  static of(a: number): A {\n  }\n}",
];

const OTHERS: readonly string[] = [
  "  if (a(b)) {\n  }",
  "  for (const a of b(c)) {\n  }",
  "  call(a, () => {\n  });",
  "  call(\n    a,\n  );",
  "  return f(a);",
  "interface A {\n  f(a: number): void;\n}",
  "// function f() {}",
  "/** function f() {} */",
];

for (const text of FUNCTIONS) test(`assertions: ${JSON.stringify(text)}: one function`, () => assert.equal(countIn(text).functions, 1));
for (const text of OTHERS) test(`assertions: ${JSON.stringify(text)}: no function`, () => assert.equal(countIn(text).functions, 0));

test("assertions: calls of assert and of what is named after it: counted, their declaration and comments are not", () => {
  const text = 'function assertOpen(): void {\n  assert(a, "b");\n}\nassertOpen();\n// assert(c, "d");\nimport { assert } from "e";\n';
  assert.deepEqual(countIn(text), { functions: 1, assertions: 2 });
});

test("assertions: a text without one: a lib that lost its assertions is found", () => {
  const { functions, assertions } = countIn("function f(): void {\n  g();\n}\n");
  assert.ok(assertions < functions * ASSERTIONS_PER_FUNCTION_MIN);
});

for (const lib of ASSERTED_LIBS) {
  test(`assertions: ${lib}: at least ${ASSERTIONS_PER_FUNCTION_MIN} per function (style rule 5)`, () => {
    const { functions, assertions } = countInLib(ROOT, lib);
    assert.ok(functions > 0 && assertions >= functions * ASSERTIONS_PER_FUNCTION_MIN, `${assertions} in ${functions} functions`);
  });
}

test("assertions: shares of the faults: one for each remainder of the commit, together all, each once; without a commit the first", () => {
  const items = [0, 1, 2, 3, 4, 5, 6];
  const shares = ["00000000aa", "00000001aa", "00000002aa"].map((commit) => shareOf(items, 3, commit));
  assert.deepEqual(shares, [
    [0, 3, 6],
    [1, 4],
    [2, 5],
  ]);
  assert.deepEqual([shareOf(items, 1, "00000005"), shareOf(items, 3, "")], [items, [0, 3, 6]]);
  for (const share of [0, -1, 1.5, Number.NaN]) assert.throws(() => shareOf(items, share, ""), /whole number/);
});

for (const { message, file, search } of ASSERTION_FAULTS) {
  test(`assertions: the fault for "${message}" in ${file}: fits the code, and the assertion is there`, () => {
    assert.equal(readFileSync(resolve(ROOT, file), "utf8").split(search).length, 2, "the text to patch is there once");
    const [, lib] = file.split("/");
    const texts = globSync(`libs/${lib}/src/**/*.ts`, { cwd: ROOT }).map((path) => readFileSync(resolve(ROOT, path), "utf8"));
    assert.ok(texts.some((text) => text.includes(`${message}"`)));
  });
}
