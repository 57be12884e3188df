import assert from "node:assert/strict";
import { test } from "node:test";
import { codeLines, coveredLines, type ScriptCoverage } from "./coverage.ts";

const SOURCE = `// A comment.
interface Shape {
  readonly side: number;
}

export function area(shape: Shape): number {
  if (shape.side < 0) {
    throw new Error("negative");
  }
  return shape.side ** 2;
}
`;

const at = (text: string): number => SOURCE.indexOf(text);
const scriptOf = (called: number, thrown: number): ScriptCoverage => ({
  url: "file:///area.ts",
  functions: [
    { ranges: [{ startOffset: 0, endOffset: SOURCE.length, count: 1 }] },
    {
      ranges: [
        { startOffset: at("export"), endOffset: SOURCE.length - 1, count: called },
        { startOffset: at("{\n    throw"), endOffset: at("\n  return"), count: thrown },
      ],
    },
  ],
});

test("coverage: comments, types and brackets are no lines of code", () => {
  assert.deepEqual(codeLines(SOURCE), [6, 7, 8, 10]);
});

test("coverage: a line counts when any process ran any of it; the innermost range decides", () => {
  const code = codeLines(SOURCE);
  const lines = (...scripts: ScriptCoverage[]): number[] => [...coveredLines(SOURCE, code, scripts)].toSorted((a, b) => a - b);
  assert.deepEqual(lines(), []);
  assert.deepEqual(lines(scriptOf(0, 0)), []);
  assert.deepEqual(lines(scriptOf(3, 0)), [6, 7, 10]);
  assert.deepEqual(lines(scriptOf(3, 0), scriptOf(1, 1)), [6, 7, 8, 10]);
});
