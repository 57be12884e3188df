// The affected oracle: for generated edits, does `nx affected` run every task it must? A task runs when Nx selects it and its hash is
// new. Source edits bring a real failure: whenever the full run would be red, the affected run must be red.
// Prints `N edits, 0 missed, N superfluous`; exit code 1 when anything was missed.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { generateEdits, type Edit, type SeededFailure } from "./edits.ts";
import { Expectation } from "./expected.ts";
import { WorkTree } from "./work-tree.ts";

const ORIGIN = join(import.meta.dirname, "../..");
const TARGETS = ["boundaries", "typecheck", "lint", "format-check", "words", "contracts", "generate", "test", "build"];
/** Run once before the edits, so that a stale result is there to be replayed. Tests are left to their hashes: they take long. */
const WARMED_TARGETS = ["boundaries", "typecheck", "lint", "format-check", "words", "contracts"];
const LEAST_EDITS = 40;

interface Tally {
  missed: string[];
  superfluous: number;
  replayed: number;
  red: number;
}

/** Compares what runs with what must run; adds what differs to the tally. */
function compare(edit: Edit, baseline: Readonly<Record<string, string>>, tree: WorkTree, tally: Tally): void {
  const { selected, hashes } = tree.probe(TARGETS);
  const runs = new Set(selected.filter((task) => hashes[task] !== baseline[task]));
  for (const task of edit.expected) {
    if (!runs.has(task))
      tally.missed.push(`${edit.name}: ${task} ${selected.includes(task) ? "is replayed from the cache" : "is not selected"}`);
  }
  const superfluous = [...runs].filter((task) => !edit.expected.has(task));
  tally.superfluous += superfluous.length;
  tally.replayed += selected.length - runs.size;
  const notes = superfluous.length === 0 ? "" : `; superfluous: ${superfluous.join(", ")}`;
  console.log(`${edit.name}: ${runs.size} run, ${edit.expected.size} expected${notes}`);
}

/**
 * The affected run must be red for a seeded failure that makes the full run red. Only the edited project's own task is run, which
 * the whole affected run would run too.
 */
function runSeeded({ target, project }: SeededFailure, edit: Edit, others: readonly string[], tree: WorkTree, tally: Tally): void {
  const affected = tree.nx("affected", "-t", target, "--base=HEAD", `--exclude=${others.join(",")}`);
  if (!affected.isGreen) {
    tally.red += 1;
    return;
  }
  const full = tree.nx("run-many", "-t", target, "--skip-nx-cache");
  const what = full.isGreen ? `the seeded ${target} failure fails nowhere` : "the full run is red, the affected run is green";
  tally.missed.push(`${edit.name}: ${project}: ${what}`);
}

/** The oracle itself must be seen to fail: without `^production` in the inputs it has to find that dependents are missed. */
function findsSeededHole(tree: WorkTree, edits: readonly Edit[]): boolean {
  const plugin = "tools/nx/plugin.mjs";
  tree.apply({ [plugin]: tree.read(plugin).replaceAll(', "^production"', "") });
  tree.commit();
  const { hashes } = tree.probe(TARGETS);
  const edit = edits.find(({ name }) => name.endsWith("libs/runtime/src/index.ts"))!;
  tree.apply(edit.files);
  const tally: Tally = { missed: [], superfluous: 0, replayed: 0, red: 0 };
  compare({ ...edit, name: `with a seeded hole, ${edit.name}` }, hashes, tree, tally);
  return tally.missed.length > 0;
}

function main(): number {
  const { values } = parseArgs({ options: { only: { type: "string" } } });
  const tree = WorkTree.create(ORIGIN);
  try {
    const expectation = new Expectation(tree.root);
    const all = generateEdits(tree.root, expectation);
    const edits = all.filter(({ name }) => values.only === undefined || name.includes(values.only));
    const names = expectation.projects.map(({ name }) => name);
    const redBefore = new Set(tree.nx("run-many", "-t", ...WARMED_TARGETS).red);
    const baseline = tree.probe(TARGETS).hashes;
    const tally: Tally = { missed: [], superfluous: 0, replayed: 0, red: 0 };
    for (const task of Object.keys(baseline))
      if (!expectation.allTasks().has(task)) tally.missed.push(`${task}: a task without an expectation`);
    for (const edit of edits) {
      tree.apply(edit.files);
      compare(edit, baseline, tree, tally);
      const { failure } = edit;
      if (failure !== undefined && redBefore.has(`${failure.project}:${failure.target}`)) {
        tally.missed.push(`${edit.name}: ${failure.target} of ${failure.project} is red without it, so nothing can be shown`);
      } else if (failure !== undefined) {
        runSeeded(
          failure,
          edit,
          names.filter((name) => name !== failure.project),
          tree,
          tally,
        );
      }
      tree.reset();
    }
    if (!findsSeededHole(tree, all)) tally.missed.push("a seeded hole in the inputs was not found");
    if (values.only === undefined && edits.length < LEAST_EDITS) tally.missed.push(`only ${edits.length} edits could be generated`);
    for (const line of tally.missed) console.error(`MISSED ${line}`);
    console.log(`seeded failures that turned the affected run red: ${tally.red}; selected but answered from the cache: ${tally.replayed}`);
    console.log(`${edits.length} edits, ${tally.missed.length} missed, ${tally.superfluous} superfluous`);
    return tally.missed.length === 0 ? 0 : 1;
  } finally {
    tree.remove();
  }
}

process.exitCode = main();
