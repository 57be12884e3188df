// Run inside a work tree: asks its selection which tasks `npm run affected` would take for what is uncommitted, and Nx for the hash of every
// task. A task runs for an edit when it is selected and its hash is new; with the same hash its old result is replayed.
// Prints JSON { selected: string[], hashes: Record<task, hash> }. Uses the pinned Nx's own modules: the command line shows no hashes.
import { createRequire } from "node:module";
import { join } from "node:path";

const workTree = process.cwd();
const requireNx = createRequire(join(workTree, "package.json"));
const load = (path) => requireNx(join(workTree, "node_modules/nx/dist/src", path));
const { createTaskHasher } = load("hasher/create-task-hasher.js");
const { readNxJson } = load("config/configuration.js");
const { changeSince } = await import(join(workTree, "tools/nx/changed-files.ts"));
const { matchGlobs, partOf, plansOf, readProjectGraph, taskGraphOf } = await import(join(workTree, "tools/nx/nx-tasks.ts"));
const { selectTasks } = await import(join(workTree, "tools/nx/select-tasks.ts"));

const targets = process.argv.slice(2);
const graph = await readProjectGraph();
const all = taskGraphOf(graph, targets);
const roots = Object.fromEntries(Object.entries(graph.nodes).map(([name, { data }]) => [name, data.root]));
const reached = selectTasks(changeSince(workTree, "HEAD"), plansOf(graph, all), roots, matchGlobs);
const tasks = Object.values(all.tasks);
const environments = Object.fromEntries(tasks.map(({ id }) => [id, process.env]));
const hashes = await createTaskHasher(graph, readNxJson(), {}).hashTasks(tasks, all, environments);
const result = {
  selected: Object.keys(partOf(all, reached).tasks),
  hashes: Object.fromEntries(tasks.map(({ id }, index) => [id, hashes[index].value])),
};
process.stdout.write(JSON.stringify(result), () => process.exit(0));
