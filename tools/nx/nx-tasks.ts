// The pinned Nx's own modules, for what its command line does not offer: the plan each task is hashed by, and a run of single tasks.
import { createRequire } from "node:module";
import { join } from "node:path";
import type { MatchGlobs, Plans } from "./select-tasks.ts";

export interface Task {
  readonly id: string;
  readonly target: { readonly project: string; readonly target: string };
}

export interface TaskGraph {
  readonly tasks: Readonly<Record<string, Task>>;
  readonly dependencies: Readonly<Record<string, readonly string[]>>;
  readonly continuousDependencies: Readonly<Record<string, readonly string[]>>;
  readonly roots: readonly string[];
}

export interface ProjectGraph {
  readonly nodes: Readonly<
    Record<string, { readonly data: { readonly root: string; readonly targets?: Readonly<Record<string, unknown>> } }>
  >;
}

interface LifeCycle {
  readonly isLifeCycle: never;
}

/** What the command line passes when no argument follows the targets; it counts into the hash of a task. */
const NO_OVERRIDES = { __overrides_unparsed__: [] };

const workspaceRoot = join(import.meta.dirname, "../..");
const requireNx = createRequire(join(workspaceRoot, "package.json"));
const load = (module: string): unknown => requireNx(`${workspaceRoot}/node_modules/nx/dist/src/${module}`);

const { createProjectGraphAsync } = load("project-graph/project-graph.js") as { createProjectGraphAsync(): Promise<ProjectGraph> };
const { createTaskGraph } = load("tasks-runner/create-task-graph.js") as {
  createTaskGraph(
    graph: ProjectGraph,
    extraDependencies: object,
    projects: readonly string[],
    targets: readonly string[],
    configuration: undefined,
    overrides: object,
  ): TaskGraph;
};
const { readNxJson } = load("config/nx-json.js") as { readNxJson(root: string): object };
const { transformProjectGraphForRust } = load("native/transform-objects.js") as {
  transformProjectGraphForRust(graph: ProjectGraph): object;
};
const native = load("native/index.js") as {
  readonly HashPlanner: new (nxJson: object, graph: object) => { getPlans(tasks: readonly string[], graph: TaskGraph): Plans };
  transferProjectGraph(graph: object): object;
  readonly matchGlobPaths: MatchGlobs;
};
const { invokeTasksRunner } = load("tasks-runner/run-command.js") as {
  invokeTasksRunner(run: {
    readonly tasks: readonly Task[];
    readonly projectGraph: ProjectGraph;
    readonly taskGraph: TaskGraph;
    readonly lifeCycle: LifeCycle;
    readonly nxJson: object;
    readonly nxArgs: { readonly targets: readonly string[] };
    readonly loadDotEnvFiles: boolean;
    readonly initiatingProject: null;
    readonly initiatingTasks: readonly Task[];
  }): Promise<Readonly<Record<string, { readonly status: string }>>>;
};
const { StaticRunManyTerminalOutputLifeCycle } = load("tasks-runner/life-cycles/static-run-many-terminal-output-life-cycle.js") as {
  readonly StaticRunManyTerminalOutputLifeCycle: new (projects: string[], tasks: Task[], args: object, overrides: object) => LifeCycle;
};

/** Nx's own: what a glob matches is what is hashed. */
export const matchGlobs: MatchGlobs = native.matchGlobPaths;

export const readProjectGraph = (): Promise<ProjectGraph> => createProjectGraphAsync();

/** The tasks of these targets in all projects that have them. */
export function taskGraphOf(graph: ProjectGraph, targets: readonly string[]): TaskGraph {
  const hasSome = (name: string): boolean => targets.some((target) => graph.nodes[name]!.data.targets?.[target] !== undefined);
  return createTaskGraph(graph, {}, Object.keys(graph.nodes).filter(hasSome), targets, undefined, NO_OVERRIDES);
}

export function plansOf(graph: ProjectGraph, taskGraph: TaskGraph, nxJson: object = readNxJson(workspaceRoot)): Plans {
  const planner = new native.HashPlanner(nxJson, native.transferProjectGraph(transformProjectGraphForRust(graph)));
  return planner.getPlans(Object.keys(taskGraph.tasks), taskGraph);
}

/** The part of the graph that runs these tasks: they, and what must have run before them. */
export function partOf(graph: TaskGraph, wanted: Iterable<string>): TaskGraph {
  const kept = new Set(wanted);
  for (const task of kept) for (const before of [...graph.dependencies[task]!, ...graph.continuousDependencies[task]!]) kept.add(before);
  const only = <Value>(values: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> =>
    Object.fromEntries(Object.entries(values).filter(([task]) => kept.has(task)));
  return {
    tasks: only(graph.tasks),
    dependencies: only(graph.dependencies),
    continuousDependencies: only(graph.continuousDependencies),
    roots: graph.roots.filter((task) => kept.has(task)),
  };
}

/** Runs every task of the graph, or replays it; true when none failed. */
export async function runTasks(projectGraph: ProjectGraph, taskGraph: TaskGraph, wanted: ReadonlySet<string>): Promise<boolean> {
  const tasks = Object.values(taskGraph.tasks);
  const initiatingTasks = tasks.filter(({ id }) => wanted.has(id));
  const projects = [...new Set(initiatingTasks.map(({ target }) => target.project))];
  const nxArgs = { targets: [...new Set(initiatingTasks.map(({ target }) => target.target))] };
  const lifeCycle = new StaticRunManyTerminalOutputLifeCycle(projects, tasks, nxArgs, NO_OVERRIDES);
  const results = await invokeTasksRunner({
    tasks,
    projectGraph,
    taskGraph,
    lifeCycle,
    nxJson: readNxJson(workspaceRoot),
    nxArgs,
    loadDotEnvFiles: true,
    initiatingProject: null,
    initiatingTasks,
  });
  return tasks.every(({ id }) =>
    ["success", "local-cache", "local-cache-kept-existing", "remote-cache"].includes(results[id]?.status ?? "none"),
  );
}
