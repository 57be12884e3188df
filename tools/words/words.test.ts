// Every word is seeded once and found; what only looks like it is not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { hitsIn } from "./hits.ts";
import { WORDS } from "./words.ts";

const OBJECTS = "libs/objects/src/a.ts";
const DEDUP = "libs/dedup/src/a.ts";
const ANYWHERE = "libs/rpc/src/a.ts";

const SEEDED: readonly (readonly [word: string, path: string, text: string])[] = [
  ["room", ANYWHERE, "// here the rooms are put together"],
  ["room", ANYWHERE, "const node = room.node;"],
  ["room", "libs/rpc/src/test/room.ts", ""],
  ["house", ANYWHERE, "/** The shape of the house. */"],
  ["planted", ANYWHERE, "const PLANTED_BUGS = [];"],
  ["planted", "testing/simulate/src/planted-bugs.ts", ""],
  ["kill point", ANYWHERE, "this.#killPoint(name);"],
  ["kill point", ANYWHERE, "const KILL_POINTS = [];"],
  ["people for code", ANYWHERE, "// Nobody reads it."],
  ["people for code", ANYWHERE, "// for whoever asks"],
  ["can not", ANYWHERE, "// it can not be read"],
  ["is told", ANYWHERE, "// the caller is told"],
  ["is told", ANYWHERE, "// others have been told"],
  ["stands beside", ANYWHERE, "// it stands beside its table"],
  ["set aside", ANYWHERE, "const setAside = 1;"],
  ["garbage row", ANYWHERE, "interface GarbageRow {}"],
  ["chance", ANYWHERE, "// neither time nor chance"],
  ["donor", ANYWHERE, "const donor = replica;"],
  ["speaks", ANYWHERE, "acceptance.speaks(link);"],
  ["look after home", ANYWHERE, "#lookAfterHome(): void {"],
  ["in doubt", ANYWHERE, "isInDoubt(error)"],
  ["applied mark", "libs/group-log/src/a.ts", "// the largest applied mark"],
  ["verdict", DEDUP, "class Verdicts {}"],
  ["sealed run", DEDUP, "const sealedRuns = [];"],
  ["generation window", DEDUP, "// a GenerationWindow keeps them"],
  ["cycle", DEDUP, "async #cycle(): Promise<void> {"],
  ["way", ANYWHERE, "## The way of a request"],
  ["piece", OBJECTS, "interface PieceName {}"],
  ["give up", OBJECTS, "epoch.giveUp(sequence);"],
  ["let go", ANYWHERE, "rows.letGo();"],
  ["settle a name", OBJECTS, 'name.settle("absent");'],
  ["hold back", OBJECTS, "holdBack(context, attempt);"],
  ["claim", "libs/s3/src/signature/verifier.ts", "const claim = readClaim(headers);"],
];

for (const [word, path, text] of SEEDED) {
  test(`words: ${word} in ${path}: ${text || "the path"}: found`, () => {
    const { pattern, instead } = WORDS.find(({ name }) => name === word)!;
    const hits = hitsIn(path, text);
    assert.ok(hits.length >= 1, "no hit");
    for (const hit of hits) assert.ok(hit.instead === instead && hit.found.match(pattern) !== null, JSON.stringify(hit));
  });
}

test("words: every word: seeded above", () => {
  const seeded = new Set(SEEDED.map(([word]) => word));
  assert.deepEqual(
    WORDS.filter(({ name }) => !seeded.has(name)).map(({ name }) => name),
    [],
  );
});

for (const [path, text] of [
  [ANYWHERE, "// while there is room for one more; hasRoom"],
  [ANYWHERE, "const kill = point;"],
  [ANYWHERE, "process.env.CONCORD_KILL_POINT; `${ENV_PREFIX}KILL_POINT`"],
  [ANYWHERE, "// it cannot be read; told apart by its name"],
  [ANYWHERE, "const { setAsideMs } = letter;"],
  [ANYWHERE, "if (random.chance(0.5)) return;"],
  [ANYWHERE, "chance(probability: number): boolean {"],
  [ANYWHERE, "// looked at afterwards"],
  [ANYWHERE, "await Promise.allSettled(stops); await clock.settle();"],
  [ANYWHERE, "// a verdict of the checker; sealed record; one cycle; a piece of text"],
  [DEDUP, "return { verdict: VERDICTS[kind], id }; // VERDICT_ACCEPTED"],
  [DEDUP, "return sealRecord(1, bytes, checksum);"],
  [OBJECTS, '{ name: "objects_commits_in_doubt", kind: "gauge" }'],
  ["protos/concord/object/v1/admin.proto", "  uint64 pieces = 1;"],
  ["libs/adapter-filesystem/src/a.ts", 'const FOLDER = "pieces";'],
  [ANYWHERE, "interface CanonicalParts {"],
] as const) {
  test(`words: ${text} in ${path}: accepted`, () => assert.deepEqual(hitsIn(path, text), []));
}

for (const name of ["Parts", "NodeParts", "TestRoom", "GatewayWiring", "ClientSurroundings", "PlanSources", "TxnCoordinatorHost"]) {
  test(`words: a bag of dependencies called ${name}: found`, () => {
    assert.deepEqual(
      hitsIn(ANYWHERE, `import { ${name} } from "./a.ts";\nexport interface ${name} {`).map(({ line, found }) => [line, found]),
      [[2, name]],
    );
  });
}
