// Which tasks an edit must run, from our own reading of the package.json files and of what each kind of file is for. Nothing here asks
// Nx: the oracle compares this with what Nx does.
import { readWorkspace, type Project } from "../boundaries/workspace.ts";

const COMMON_TARGETS = ["boundaries", "typecheck", "lint", "format-check", "test"];
const CONTRACT_TARGETS = ["generate", "contracts"];
/** What also reads the production files of the projects it depends on. */
const DEPENDENT_TARGETS = ["typecheck", "lint", "test", "build"];
const READS_EVERYTHING = /^(package\.json|package-lock\.json|nx\.json|tsconfig\.base\.json|\.gitignore|tools\/nx\/.*)$/;
/** Lists the tests of every claim; a test of the tools looks whether they are there. */
const CLAIM_DOCUMENT = /^docs\/design\/.*\.md$/;
const NO_TASK = /^(docs\/|docker\/|\.ci\/|\.github\/|README\.md$|LICENSE$)/;
const TEST_FILE = /\.test\.ts$|^([^/]+\/)*src\/test\//;

export class Expectation {
  readonly #projects: readonly Project[];
  readonly #targets: ReadonlyMap<string, readonly string[]>;

  constructor(workspaceRoot: string) {
    this.#projects = readWorkspace(workspaceRoot, "no sources").projects;
    this.#targets = new Map(this.#projects.map((project) => [project.name, targetsOf(project)]));
  }

  get projects(): readonly Project[] {
    return this.#projects;
  }

  /** Every task of the workspace. */
  allTasks(): Set<string> {
    return this.#tasks(this.#projects, () => true);
  }

  /** The tasks that must run after a change of the file. */
  of(path: string): Set<string> {
    if (READS_EVERYTHING.test(path) && !TEST_FILE.test(path)) return this.allTasks();
    if (CLAIM_DOCUMENT.test(path)) return new Set(["@concord/tools:test"]);
    if (NO_TASK.test(path)) return new Set();
    if (path === ".oxlintrc.json") return union(this.#everywhere("lint"), ["@concord/tools:test"]);
    if (path === ".oxfmtrc.json") return this.#everywhere("format-check");
    const project = this.#projects.find(({ root }) => path.startsWith(`${root}/`));
    if (project === undefined) throw new Error(`nobody has said what a change of ${path} must run`);
    const inside = path.slice(project.root.length + 1);
    const own = this.#inside(project, inside);
    return project.name === "@concord/tools" ? union(own, this.#toolsReach(inside)) : own;
  }

  /** A project that was just added: its own tasks, and the rules about all projects together. */
  ofNewProject(name: string): Set<string> {
    return new Set([...COMMON_TARGETS.map((target) => `${name}:${target}`), "@concord/tools:boundaries"]);
  }

  #inside(project: Project, path: string): Set<string> {
    if (TEST_FILE.test(path)) {
      const own = this.#tasks([project], (target) => COMMON_TARGETS.includes(target));
      return path.endsWith(".test.ts") ? union(own, ["@concord/tools:test"]) : own;
    }
    if (path === "README.md") return new Set([`${project.name}:test`]);
    if (path === "released.binpb") return new Set([`${project.name}:contracts`, `${project.name}:test`]);
    const production = this.#production(project);
    if (path.endsWith(".proto") || path === "buf.yaml")
      return union(
        production,
        CONTRACT_TARGETS.map((target) => `${project.name}:${target}`),
      );
    if (path !== "package.json") return production;
    const direct = this.#projects.filter(({ dependencies }) => dependencies.has(project.name));
    return union(
      production,
      this.#tasks(direct, (target) => target === "boundaries"),
      ["@concord/tools:boundaries"],
    );
  }

  /** Tools check and generate for others. */
  #toolsReach(path: string): Set<string> {
    if (TEST_FILE.test(path)) return new Set();
    if (path.startsWith("boundaries/")) return this.#everywhere("boundaries");
    if (path.startsWith("lint-rules/")) return this.#everywhere("lint");
    const protos = this.#projects.find(({ root }) => root === "protos")!;
    if (path.startsWith("protos/"))
      return union(
        this.#production(protos),
        CONTRACT_TARGETS.map((target) => `${protos.name}:${target}`),
      );
    return new Set();
  }

  /** The project's tasks but the contract ones, and what its dependents make of its production files. */
  #production(project: Project): Set<string> {
    const own = this.#tasks([project], (target) => !CONTRACT_TARGETS.includes(target));
    return union(
      own,
      this.#tasks(this.#dependents(project), (target) => DEPENDENT_TARGETS.includes(target)),
    );
  }

  #dependents(project: Project): readonly Project[] {
    const found = new Set<Project>();
    const visit = (name: string): void => {
      for (const other of this.#projects) {
        if (found.has(other) || !other.dependencies.has(name)) continue;
        found.add(other);
        visit(other.name);
      }
    };
    visit(project.name);
    return [...found];
  }

  #everywhere(target: string): Set<string> {
    return this.#tasks(this.#projects, (candidate) => candidate === target);
  }

  #tasks(projects: readonly Project[], wanted: (target: string) => boolean): Set<string> {
    return new Set(
      projects.flatMap(({ name }) =>
        this.#targets
          .get(name)!
          .filter(wanted)
          .map((target) => `${name}:${target}`),
      ),
    );
  }
}

function targetsOf({ root, ownTargets }: Project): readonly string[] {
  const build = root.startsWith("apps/") ? ["build"] : [];
  const contracts = root === "protos" ? CONTRACT_TARGETS : [];
  return [...new Set([...COMMON_TARGETS, ...build, ...contracts, ...ownTargets])];
}

function union(...sets: readonly Iterable<string>[]): Set<string> {
  return new Set(sets.flatMap((set) => [...set]));
}
