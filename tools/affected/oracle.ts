// The affected oracle: for generated edits, does `npm run affected` run every task it must? A task runs when it is selected and its hash
// is new. Source edits bring a real failure: whenever the full run would be red, the affected run must be red.
// Prints `N edits, 0 missed, N superfluous`; exit code 1 when anything was missed.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { generateEdits, type Edit, type SeededFailure } from "./edits.ts";
import { Expectation } from "./expected.ts";
import { WorkTree } from "./work-tree.ts";

const ORIGIN = join(import.meta.dirname, "../..");
const TARGETS = ["boundaries", "typecheck", "lint", "format-check", "words", "contracts", "generate", "test", "build"];
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

/** The task that an affected run takes must turn red for a failure seeded into it; a stale green result is there to be replayed. */
function runSeeded({ target, project }: SeededFailure, edit: Edit, tree: WorkTree, tally: Tally): void {
  if (tree.nx("run-many", "-t", target, "-p", project).isGreen) tally.missed.push(`${edit.name}: ${target} of ${project} is green`);
  else tally.red += 1;
}

/** Runs the tasks that failures will be seeded into; those that are red without one. */
function runUnseeded(edits: readonly Edit[], tree: WorkTree): Set<string> {
  const failures = edits.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
  const red = [...Map.groupBy(failures, ({ target }) => target)].flatMap(
    ([target, group]) => tree.nx("run-many", "-t", target, "-p", group.map(({ project }) => project).join(",")).red,
  );
  return new Set(red);
}

interface SeededHole {
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The end of the name of the edit that shows it. */
  readonly shownBy: string;
}

const OWN_SOURCE = "libs/runtime/src/index.ts";

/** Inputs without the files of dependencies; a selection that overlooks the files of projects; one that overlooks third-party packages. */
const SEEDED_HOLES: readonly SeededHole[] = [
  { file: "tools/nx/plugin.mjs", from: ', "^production"', to: "", shownBy: OWN_SOURCE },
  {
    file: "tools/nx/select-tasks.ts",
    from: "return this.#matches(splitGlobs(rest), this.#ownedBy(root));",
    to: "return false;",
    shownBy: OWN_SOURCE,
  },
  {
    file: "tools/nx/select-tasks.ts",
    from: "this.#packages.has(externalPackage[1]!)",
    to: "false",
    shownBy: "in package-lock.json",
  },
];

/** The oracle itself must be seen to fail: with the hole it has to find that tasks are missed. */
function findsSeededHole({ file, from, to, shownBy }: SeededHole, tree: WorkTree, edits: readonly Edit[]): boolean {
  const whole = tree.read(file);
  if (!whole.includes(from)) throw new Error(`${file} has no ${from} to take out`);
  tree.apply({ [file]: whole.replaceAll(from, to) });
  tree.commit();
  const { hashes } = tree.probe(TARGETS);
  const edit = edits.find(({ name }) => name.endsWith(shownBy))!;
  tree.apply(edit.files);
  const tally: Tally = { missed: [], superfluous: 0, replayed: 0, red: 0 };
  compare({ ...edit, name: `with a seeded hole in ${file}, ${edit.name}` }, hashes, tree, tally);
  tree.reset();
  tree.apply({ [file]: whole });
  tree.commit();
  return tally.missed.length > 0;
}

function main(): number {
  const { values } = parseArgs({ options: { only: { type: "string" } } });
  const tree = WorkTree.create(ORIGIN);
  try {
    const expectation = new Expectation(tree.root);
    const all = generateEdits(tree.root, expectation);
    const edits = all.filter(({ name }) => values.only === undefined || name.includes(values.only));
    const redBefore = runUnseeded(edits, tree);
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
        runSeeded(failure, edit, tree, tally);
      }
      tree.reset();
    }
    for (const hole of SEEDED_HOLES)
      if (!findsSeededHole(hole, tree, all)) tally.missed.push(`a seeded hole in ${hole.file} was not found`);
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
