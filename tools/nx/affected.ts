// `node tools/nx/affected.ts --base COMMIT [--head COMMIT] [--list] TARGET...`: runs the tasks of these targets that what changed since
// the commit reaches, with what they depend on; with --list only names them.
import { parseArgs } from "node:util";
import { changeSince } from "./changed-files.ts";
import { matchGlobs, partOf, plansOf, readProjectGraph, runTasks, taskGraphOf } from "./nx-tasks.ts";
import { selectTasks } from "./select-tasks.ts";

const { positionals: targets, values } = parseArgs({
  allowPositionals: true,
  options: { base: { type: "string" }, head: { type: "string" }, list: { type: "boolean" } },
});
if (values.base === undefined || targets.length === 0)
  throw new Error("usage: node tools/nx/affected.ts --base COMMIT [--head COMMIT] [--list] TARGET...");

const graph = await readProjectGraph();
const all = taskGraphOf(graph, targets);
const roots = Object.fromEntries(Object.entries(graph.nodes).map(([name, { data }]) => [name, data.root]));
const reached = selectTasks(changeSince(process.cwd(), values.base, values.head), plansOf(graph, all), roots, matchGlobs);
const wanted = new Set([...reached].filter((task) => targets.includes(all.tasks[task]!.target.target)));
const projects = new Set([...wanted].map((task) => all.tasks[task]!.target.project));
console.log(`${wanted.size} of ${Object.keys(all.tasks).length} tasks in ${projects.size} of ${Object.keys(roots).length} projects`);
if (values.list === true) for (const task of wanted) console.log(task);
const isGreen = values.list === true || wanted.size === 0 || (await runTasks(graph, partOf(all, wanted), wanted));
// Nx leaves handles open.
process.exit(isGreen ? 0 : 1);
