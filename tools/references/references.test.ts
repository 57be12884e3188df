import assert from "node:assert/strict";
import { test } from "node:test";
import { architectureReferences } from "./architecture.ts";
import { describe, references, ROOT } from "./main.ts";
import { openRepository, withFiles } from "./repository.ts";

/** A file to add, what it says, and the one reference in it that leads nowhere. */
const SEEDED: readonly (readonly [violation: string, folder: string, text: string, found: RegExp])[] = [
  ["a claim no document states", "libs/locks/src/N.ts", "// Grants in order (TXD99).", /claim TXD99/],
  ["a claim in a contract", "protos/concord/txn/v1/N.proto", "// Unlogged (LB99).", /claim LB99/],
  ["a style rule that is not there", "libs/locks/src/N.ts", "// A pair of booleans (style rule 99).", /rule rule 99/],
  ["a decision that is not there", "libs/locks/src/N.ts", "// See decision 0999.", /decision decision 0999/],
  ["an invariant its README does not state", "libs/locks/src/N.ts", "// Held by its owner (I99).", /locks\/README\.md states no I99/],
  ["an invariant of another lib", "libs/codec/src/N.ts", "// In order (I99 of the locks README).", /locks\/README\.md states no I99/],
  ["a document that is not there", "libs/locks/src/N.ts", "// As the steps of the spec.", /document the spec/],
  ["a file of docs in a comment", "libs/locks/src/N.ts", "// See docs/nowhere.md.", /path docs\/nowhere\.md/],
  ["a file of the project in a comment", "libs/locks/src/N.ts", "/** As wait-against.ts says. */", /path wait-against\.ts/],
  ["a file of a lib's README", "libs/locks/N.md", "`wait-against.ts`", /no such file or folder: wait-against\.ts/],
  ["a path in a sample", "docs/N.md", "```sh\nnode tools/nowhere/pack.ts DIR\n```", /tools\/nowhere\/pack\.ts/],
  ["a link to no file", "docs/N.md", "[style](styles.md)", /link styles\.md: leads to no file/],
  ["a link to no heading", "docs/N.md", "[words](style.md#phrases)", /no heading with this anchor/],
  ["a metric no list has", "docs/N.md", "`objects_uploads_lost_total`", /metric objects_uploads_lost_total/],
  ["a gauge no list has", "docs/N.md", "`object_names_unresolved`", /metric object_names_unresolved/],
  ["a command package.json does not have", "docs/N.md", "`npm run everything`", /command npm run everything/],
  [
    "a variable no configuration has",
    "docker/N.yaml",
    "CONCORD_DATA_FOLDERS: /data",
    /CONCORD_DATA_FOLDERS: no configuration has a key dataFolders/,
  ],
  ["a flag no source has", "docs/N.md", "`npm run simulate -- --seedz 5`", /command --seedz: no source has an option/],
  ["a configuration key no source has", "docs/N.md", "`drainGraceHours`", /identifier drainGraceHours/],
];
const RESOLVING = `
[rules](style.md#rules) \`npm run check\` \`objects_garbage_kept\` \`drainGraceMs\` \`docs/{ci,style}.md\` \`libs/locks/src/*.ts\`
(TXD9) (style rule 5) (I1 of the locks README) decision 0005`;

const seededFile = (at: number): string => SEEDED[at]![1].replace("N", `seeded-${at}`);
const seeded = SEEDED.map(([, , text], at) => [seededFile(at), text]);
const repository = openRepository(ROOT);
const all = references(
  withFiles(repository, { ...(Object.fromEntries(seeded) as Record<string, string>), "docs/resolving.md": RESOLVING }),
);
const unresolved = all.filter(({ problem }) => problem !== undefined);

test("references: the repository as it is: everything cited and named exists", () => {
  assert.deepEqual(unresolved.filter(({ file }) => !file.includes("/seeded-")).map(describe), []);
});

for (const [at, [violation, , , found]] of SEEDED.entries()) {
  test(`references: seeded violation: ${violation}: found`, () => {
    const [first, ...more] = unresolved.filter(({ file }) => file === seededFile(at)).map(describe);
    assert.match(first ?? "", found);
    assert.deepEqual(more, []);
  });
}

test("references: what exists: resolves in every form", () => {
  const kinds = all.filter(({ file }) => file === "docs/resolving.md").map(({ kind }) => kind);
  assert.deepEqual(kinds.toSorted(), ["claim", "command", "decision", "identifier", "invariant", "link", "metric", "path", "path", "rule"]);
});

const ARCHITECTURE: readonly (readonly [violation: string, from: RegExp, to: string, found: RegExp])[] = [
  ["a count that is not the list's", /: 13 files to/, ": 3 files to", /: lists 13$/],
  ["a path with no durable line", /`writeSynced`\. \*\*\[durable\]\*\*/, "`writeSynced`.", /: marks 0 durable lines$/],
  ["a function that moved", /`commitHandler`/, "`commitHandlers`", /commit\.ts commitHandlers: the file has no such function$/],
  [
    "a file that moved",
    /`libs\/group-log\/src\/replica-link\.ts` `offer`/,
    "`libs/group-log/src/link.ts` `offer`",
    /link\.ts offer: no such file$/,
  ],
  [
    "a layer that may import more than it may",
    /\| base, ports \| ports \|/,
    "| base, ports, domain | ports |",
    /layer ports: may import base, ports$/,
  ],
  ["a project no layer lists", /locks, logged-batch, /, "logged-batch, ", /the row of layer domain does not list locks$/],
];

const asItIs = new Set(unresolved.map(describe));

for (const [violation, from, to, found] of ARCHITECTURE) {
  test(`references: ARCHITECTURE.md: seeded violation: ${violation}: found`, () => {
    const document = repository.read("ARCHITECTURE.md");
    assert.match(document, from);
    const seededRepository = withFiles(repository, { "ARCHITECTURE.md": document.replace(from, to) });
    const problems = architectureReferences(seededRepository).filter(({ problem }) => problem !== undefined);
    const [first, ...more] = problems.map(describe).filter((line) => !asItIs.has(line));
    assert.match(first ?? "", found);
    assert.deepEqual(more, []);
  });
}
