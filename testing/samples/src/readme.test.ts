// What README.md promises about its samples, without running them.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { ONE_PROCESS, planFromBase, PORT_BASE } from "@concord/constellation";
import { differencesOf, scriptOf, stepsOf } from "./page.ts";
import { patternOf, samplesIn } from "./sample.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const TEXT = readFileSync(join(ROOT, "README.md"), "utf8");
const { samples } = samplesIn(TEXT);

test("README: samples: one for each way in; none shares a table or a bucket with another", () => {
  const files = samples.map(({ file }) => file);
  assert.deepEqual(files, ["album.mjs", "objects.mjs", "messages.mjs", "visits.mjs"]);
  const names = samples.flatMap(({ source }) => [...source.matchAll(/CREATE TABLE (\w+)|\bCreateBucketCommand\(\{ Bucket: "(\w+)"/g)]);
  const used = names.map((match) => match[1] ?? match[2]);
  assert.ok(used.length >= 4);
  assert.equal(new Set(used).size, used.length);
});

test("README: samples: no error is swallowed", () => {
  for (const { source } of samples) {
    assert.doesNotMatch(source, /\.catch\(/);
    for (const [block] of source.matchAll(/catch \(error\) \{[^]*?\n\s*\}\n/g)) assert.match(block, /throw error;/);
  }
});

test("README: addresses: npm start listens on all of them, and the table shows each node", () => {
  const nodes = planFromBase(PORT_BASE, ONE_PROCESS);
  const printed = nodes.flatMap(({ address, adminAddress, httpAddress }) => [address, adminAddress, httpAddress ?? []].flat());
  const used = TEXT.match(/127\.0\.0\.1:\d+/g) ?? [];
  assert.deepEqual(
    used.filter((address) => !printed.includes(address)),
    [],
  );
  for (const { name, datacenter, address } of nodes) assert.match(TEXT, new RegExp(`^${name} +${datacenter} +${address} `, "m"));
});

test("README: links: every file and folder it points to exists", () => {
  const links = [...TEXT.matchAll(/\]\((?!http)([\w./-]+)\)/g)].map((match) => match[1]!);
  assert.ok(links.length > 5);
  assert.deepEqual(
    links.filter((link) => !existsSync(join(ROOT, link))),
    [],
  );
});

test("a sample: a program without a name, without its command or without output: refused", () => {
  const document = (...blocks: string[]): string => `## Use it\n\n### One\n\n${blocks.join("\n\n")}\n\n## Next\n`;
  const program = "```js\n// a.mjs\nf();\n```";
  const run = "```sh\nnode a.mjs\n```";
  const output = "```\n1 (one)\n```";
  assert.deepEqual(
    samplesIn(document("```sh\nnpm install x\n```", program, run, output)).samples.map(({ setUp, file }) => [setUp, file]),
    [["npm install x\n", "a.mjs"]],
  );
  for (const wrong of [document("```js\nf();\n```", run, output), document(program, output), document(program, run), "## Used\n"])
    assert.throws(() => samplesIn(wrong));
});

test("a sample's output: numbers and hashes may differ, nothing else may", () => {
  const pattern = patternOf(["entry 12 of group g2 (one)", 'ETag "4a4be40c"']);
  assert.match('entry 7 of group g13 (one)\nETag "b026324c"\n', pattern);
  assert.doesNotMatch('entry 7 of group g13 (two)\nETag "b026324c"\n', pattern);
  assert.doesNotMatch('entry 7 of group g13 (one)\nETag "b026324c"\nmore\n', pattern);
});

test("a page: its steps: shell blocks and files in order, with the output shown below; a drawing is none, another output is a difference", () => {
  const page =
    "```\na drawing\n```\n\n```python\n# a.py\nprint(1)\n```\n\n```sh\npython3 a.py\n```\n\n```\n1 (one)\n```\n\n```sh\ntrue\n```\n";
  const steps = stepsOf(page);
  assert.deepEqual(
    steps.map(({ output }) => output),
    [undefined, "1 (one)\n", undefined],
  );
  assert.match(scriptOf(steps), /cat > a\.py <<'PYTHON'\n# a\.py\nprint\(1\)\nPYTHON\n[^]*python3 a\.py\n[^]*true\n$/);
  const printed = (output: string): string => `-- step --\n-- step --\n${output}\n-- step --\n`;
  assert.deepEqual(differencesOf(steps, printed("22 (one)")), []);
  assert.equal(differencesOf(steps, printed("22 (two)")).length, 1);
  assert.equal(differencesOf(steps, "-- step --\n").length, 1);
  assert.throws(() => stepsOf("```python\nprint(1)\n```\n"));
});
