// Every lint rule we rely on is seen to fail here, on a seeded file in a small workspace with the real configuration.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

const WORKSPACE_ROOT = join(import.meta.dirname, "../..");
const AMBIENT = "concord(no-ambient)";

const lines = (count: number): string => "  void 0;\n".repeat(count);

/** name of the situation, source text, rule that must complain (undefined: none may). */
const SEEDED: readonly (readonly [name: string, source: string, rule: string | undefined])[] = [
  ["Date.now", "export const x = Date.now();", AMBIENT],
  ["Date.now as a value", "export const x = Date.now;", AMBIENT],
  ["new Date()", "export const x = new Date();", AMBIENT],
  ["Date()", "export const x = Date();", AMBIENT],
  ["Math.random", "export const x = Math.random();", AMBIENT],
  ["Math['random']", 'export const x = Math["random"]();', AMBIENT],
  ["setTimeout", "setTimeout(() => {}, 1);", AMBIENT],
  ["setTimeout as a value", "export const x = { wait: setTimeout };", AMBIENT],
  ["globalThis.setTimeout", "globalThis.setTimeout(() => {}, 1);", AMBIENT],
  ["globalThis.Date.now", "export const x = globalThis.Date.now();", AMBIENT],
  ["setInterval", "setInterval(() => {}, 1);", AMBIENT],
  ["setImmediate", "setImmediate(() => {});", AMBIENT],
  ["queueMicrotask", "queueMicrotask(() => {});", AMBIENT],
  ["process.nextTick", "process.nextTick(() => {});", AMBIENT],
  ["process.hrtime", "export const x = process.hrtime.bigint();", AMBIENT],
  ["performance.now", "export const x = performance.now();", AMBIENT],
  ["crypto.randomUUID", "export const x = crypto.randomUUID();", AMBIENT],
  ["AbortSignal.timeout", "export const x = AbortSignal.timeout(5);", AMBIENT],
  ["import of randomBytes", 'import { randomBytes } from "node:crypto";\nexport const x = randomBytes(2);', AMBIENT],
  ["import of a whole crypto", 'import * as c from "node:crypto";\nexport const x = c.randomBytes(2);', AMBIENT],
  ["import of timers", 'import { setTimeout as wait } from "node:timers/promises";\nexport const x = wait(2);', AMBIENT],
  ["import of perf_hooks", 'import { performance as p } from "node:perf_hooks";\nexport const x = p.now();', AMBIENT],
  ["new Date of a given time", "export const x = new Date(5).toISOString();", undefined],
  ["a clock's own setTimeout", "export const x = (c: { setTimeout(ms: number): void }): void => c.setTimeout(1);", undefined],
  ["an argument called performance", "export const x = (performance: { now(): number }): number => performance.now();", undefined],
  ["a hash", 'import { createHash } from "node:crypto";\nexport const x = createHash("sha256");', undefined],
  ["any", "export const x = (y: any): unknown => y;", "typescript(no-explicit-any)"],
  [
    "floating promise",
    "async function go(): Promise<void> {}\nexport function x(): void {\n  go();\n}",
    "typescript(no-floating-promises)",
  ],
  ["async callback for a sync one", "[1].forEach(async () => {});", "typescript(no-misused-promises)"],
  [
    "switch without a case",
    'export function x(y: "a" | "b"): number {\n  switch (y) {\n    case "a":\n      return 1;\n  }\n  return 2;\n}',
    "typescript(switch-exhaustiveness-check)",
  ],
  [
    "switch without a case, with a default",
    'export function x(y: "a" | "b"): number {\n  switch (y) {\n    case "a":\n      return 1;\n    default:\n      return 2;\n  }\n}',
    undefined,
  ],
  ["default export", "export default 1;", "import(no-default-export)"],
  ["function of 71 lines", `export function x(): void {\n${lines(69)}}`, "eslint(max-lines-per-function)"],
  ["function of 70 lines", `export function x(): void {\n${lines(68)}}`, undefined],
  ["file of 601 lines", "\n".repeat(600) + "export {};", "eslint(max-lines)"],
  ["file of 600 lines", "\n".repeat(599) + "export {};", undefined],
  ["two files that import each other", 'import { y } from "./cycle.ts";\nexport const x = (): unknown => y;', "import(no-cycle)"],
];

const AMBIENT_EXEMPT = [
  "libs/adapter-node-runtime/src/a.ts",
  "libs/adapter-level/src/a.ts",
  "libs/telemetry/src/a.ts",
  "testing/demo/src/a.ts",
  "tools/nx/a.ts",
  "libs/sample/src/a.test.ts",
];
const AMBIENT_REFUSED = ["libs/adapter-ring/src/a.ts", "libs/rpc/src/a.ts", "apps/sample/src/main.ts", "protos/src/a.ts"];

const caseFile = (index: number): string => `libs/sample/src/case-${index}.ts`;
let folder = "";
const complaints = new Map<string, string[]>();

before(() => {
  folder = mkdtempSync(join(tmpdir(), "concord-lint-"));
  for (const path of [".oxlintrc.json", "tsconfig.base.json", "tools/lint-rules"])
    cpSync(join(WORKSPACE_ROOT, path), join(folder, path), { recursive: true });
  symlinkSync(join(WORKSPACE_ROOT, "node_modules"), join(folder, "node_modules"));
  write("tsconfig.json", '{ "extends": "./tsconfig.base.json", "include": ["**/*.ts"] }');
  SEEDED.forEach(([, source], index) => write(caseFile(index), source));
  const cycle = SEEDED.findIndex(([name]) => name.startsWith("two files"));
  write("libs/sample/src/cycle.ts", `import { x } from "./case-${cycle}.ts";\nexport const y = (): unknown => x;`);
  for (const path of [...AMBIENT_EXEMPT, ...AMBIENT_REFUSED]) write(path, "export const x = Date.now();");
  const result = spawnSync("node_modules/.bin/oxlint", ["--type-aware", "--deny-warnings", "-f", "json", "."], {
    cwd: folder,
    encoding: "utf8",
  });
  for (const diagnostic of (JSON.parse(result.stdout) as { diagnostics: { code: string; filename: string }[] }).diagnostics) {
    complaints.set(diagnostic.filename, [...(complaints.get(diagnostic.filename) ?? []), diagnostic.code]);
  }
});
after(() => rmSync(folder, { recursive: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

SEEDED.forEach(([name, , rule], index) => {
  test(`lint: ${name}: ${rule === undefined ? "accepted" : `refused by ${rule}`}`, () => {
    const found = complaints.get(caseFile(index)) ?? [];
    if (rule === undefined) assert.deepEqual(found, []);
    else assert.ok(found.includes(rule), `complaints: ${found.join(", ")}`);
  });
});

for (const path of AMBIENT_EXEMPT) {
  test(`lint: ambient time in ${path}: accepted`, () => assert.deepEqual(complaints.get(path) ?? [], []));
}
for (const path of AMBIENT_REFUSED) {
  test(`lint: ambient time in ${path}: refused`, () => assert.deepEqual(complaints.get(path), [AMBIENT]));
}
