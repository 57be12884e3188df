// Run inside a work tree: asks Nx which tasks `nx affected` would select for what is uncommitted, and the hash of every task. A task
// runs for an edit when it is selected and its hash is new; with the same hash its old result is replayed.
// Prints JSON { selected: string[], hashes: Record<task, hash> }. Uses the pinned Nx's own modules: the command line shows no hashes.
import { createRequire } from "node:module";
import { join } from "node:path";

const requireNx = createRequire(join(process.cwd(), "package.json"));
const load = (path) => requireNx(join(process.cwd(), "node_modules/nx/dist/src", path));
const { createProjectGraphAsync } = load("project-graph/project-graph.js");
const { getAffectedGraphNodes } = load("command-line/affected/affected.js");
const { createTaskGraph } = load("tasks-runner/create-task-graph.js");
const { createTaskHasher } = load("hasher/create-task-hasher.js");
const { readNxJson } = load("config/configuration.js");

const targets = process.argv.slice(2);

function taskGraphOf(graph, projects) {
  const names = projects
    .filter((project) => targets.some((target) => project.data.targets?.[target] !== undefined))
    .map(({ name }) => name);
  return createTaskGraph(graph, {}, names, targets, undefined, {});
}

const graph = await createProjectGraphAsync();
const selected = taskGraphOf(graph, await getAffectedGraphNodes({ base: "HEAD", targets }, graph));
const all = taskGraphOf(graph, Object.values(graph.nodes));
const tasks = Object.values(all.tasks);
const hashes = await createTaskHasher(graph, readNxJson(), {}).hashTasks(
  tasks,
  all,
  Object.fromEntries(tasks.map(({ id }) => [id, process.env])),
);
const result = {
  selected: Object.keys(selected.tasks),
  hashes: Object.fromEntries(tasks.map(({ id }, index) => [id, hashes[index].value])),
};
process.stdout.write(JSON.stringify(result), () => process.exit(0));
