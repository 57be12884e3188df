// Which tasks an edit must run, from our own reading of the package.json files and of what each kind of file is for. Nothing here asks
// Nx: the oracle compares this with what Nx does.
import { readWorkspace, type Project } from "@concord/boundaries";

const COMMON_TARGETS = ["boundaries", "typecheck", "lint", "format-check", "words", "test"];
const CONTRACT_TARGETS = ["generate", "contracts"];
/** What also reads the production files of the projects it depends on. */
const DEPENDENT_TARGETS = ["typecheck", "lint", "test", "build", ...CONTRACT_TARGETS];
/** Targets that read third-party packages, or check which projects import them. */
const PACKAGE_TARGETS = ["boundaries", "typecheck", "lint", "test", "build"];
const LOCK_FILE_READERS = ["bootstrap", "deploy", "generators", "pack", "samples"].map((name) => `@concord/${name}:test`);
const READS_EVERYTHING = /^(package\.json|nx\.json|tsconfig\.base\.json|\.gitignore|tools\/nx\/.*)$/;
/** Files outside the projects, or of other projects, and the tasks that read them. */
const READERS: readonly (readonly [files: RegExp, task: string])[] = [
  [/^(docs\/(design\/.*|operations)|SECURITY)\.md$/, "@concord/claims:test"],
  [/^(apps|libs|protos|testing|tools)\/.*\.test\.ts$/, "@concord/claims:test"],
  [/^libs\/(dedup|group-log|logged-batch|objects|quorum|transactions)\/src\/.*\.ts$/, "@concord/assertions:test"],
  [/^([^/]+\.md|(docs|docker|deploy|apps|libs|protos|testing|tools)\/.*)$/, "@concord/references:test"],
  [/^\.oxlintrc\.json$/, "@concord/lint-rules:test"],
  [/^\.ox(lint|fmt)rc\.json$|^tools\/(boundaries|lint-rules|words)\//, "@concord/generators:test"],
  [/^((libs\/client\/)?README\.md|tools\/(bootstrap\/[^/]+\.mjs|pack\/[^/]+\.ts))$/, "@concord/samples:test"],
  [/^([^/]+|docs\/.*)\.md$/, "@concord/words:words"],
  [/^protos\/test-vectors\//, "@concord/values:test"],
  [/^protos\/((concord|google)\/.*\.proto|test-vectors\/.*|buf(\.gen)?\.yaml)$/, "@concord/clients:test"],
  [
    /^(protos\/concord\/.*\.proto|apps\/[^/]+\/src\/(ring\/)?rpc\/[^/]+\.ts|libs\/(client|rows-wire|adapter-ring|adapter-storage-proxy|rpc)\/src\/[^/]+\.ts)$/,
    "@concord/proto-tools:test",
  ],
  [/^protos\/retries\.json$/, "@concord/rpc:test"],
  [/^(docs\/s3-operations\.md|protos\/retries\.json)$/, "@concord/clients:test"],
  [/^LICENSE$|^libs\/(failure-detection|journal|logged-batch|snowflake)\/README\.md$/, "@concord/pack:test"],
  [
    /^(docker\/|deploy\/|\.ci\/|\.github\/|testing\/bench\/[^/]+\.sh$|\.dockerignore$|LICENSE$|tools\/engines\/[^/]+\/pom\.xml$|tools\/pack\/[^/]+\.ts$)/,
    "@concord/deploy:test",
  ],
  [/^docs\/alerts\/[^/]+\.md$/, "@concord/deploy:test"],
  [/^(docs\/(metrics|alerts\/[^/]+)\.md$|deploy\/helm\/concord\/files\/)/, "@concord/metrics-pages:test"],
  [/^[^/]+\/([^/]+\/)*package\.json$/, "@concord/boundaries:boundaries"],
];
const NO_TASK = /^(docs\/|docker\/|deploy\/|\.dockerignore$|\.ci\/|\.github\/|[^/]+\.md$|LICENSE$)/;
/** Neither compiled nor loaded by what depends on the project: `nx serve` and clients in other languages read them. */
const OWN_ALONE = /^(serve\.json|retries\.json|buf\.gen\.yaml)$/;
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

  /** The innermost project the file lies in. */
  ownerOf(path: string): Project | undefined {
    const around = this.#projects.filter(({ root }) => path.startsWith(`${root}/`));
    return around.sort((a, b) => b.root.length - a.root.length)[0];
  }

  /** Every task of the workspace. */
  allTasks(): Set<string> {
    return this.#tasks(this.#projects, () => true);
  }

  /** The tasks that must run after a change of the file. */
  of(path: string): Set<string> {
    if (READS_EVERYTHING.test(path) && !TEST_FILE.test(path)) return this.allTasks();
    const readers = READERS.filter(([files]) => files.test(path)).map(([, task]) => task);
    return union(this.#byOwner(path), readers);
  }

  #byOwner(path: string): Set<string> {
    if (NO_TASK.test(path)) return new Set();
    if (path === ".oxlintrc.json") return this.#everywhere("lint");
    if (path === ".oxfmtrc.json") return this.#everywhere("format-check");
    const project = this.ownerOf(path);
    if (project === undefined) throw new Error(`no expectation says what a change of ${path} must run`);
    const inside = path.slice(project.root.length + 1);
    const own = this.#inside(project, inside);
    return union(own, this.#toolsReach(path));
  }

  /** Another version of a third-party package, in package-lock.json alone. */
  ofPackage(name: string): Set<string> {
    const users = this.#projects.filter((project) => dependsOn(project, name));
    const reached = [...users, ...users.flatMap((project) => this.#dependents(project))];
    return union(
      LOCK_FILE_READERS,
      this.#tasks(reached, (target) => PACKAGE_TARGETS.includes(target)),
    );
  }

  /** A project that was just added: its own tasks, and the rules about all projects together. */
  ofNewProject(name: string): Set<string> {
    return new Set([...COMMON_TARGETS.map((target) => `${name}:${target}`), "@concord/boundaries:boundaries"]);
  }

  #inside(project: Project, path: string): Set<string> {
    if (OWN_ALONE.test(path)) return this.#tasks([project], (target) => COMMON_TARGETS.includes(target));
    if (path === "tsconfig.json") return this.#compiledBy(project);
    if (TEST_FILE.test(path)) return this.#tasks([project], (target) => COMMON_TARGETS.includes(target));
    if (path === "README.md") return new Set([`${project.name}:test`, `${project.name}:words`]);
    const checked = this.#tasks(this.#contracts(), (target) => target === "contracts");
    if (path === "released.binpb") return union(checked, [`${project.name}:test`, `${project.name}:words`]);
    const production = this.#production(project);
    if (path.endsWith(".proto") || path === "buf.yaml") return union(production, this.#tasks([project], isContractTarget));
    if (path === "vendored.json") return union(production, checked);
    if (path !== "package.json") return production;
    const direct = this.#projects.filter((other) => dependsOn(other, project.name));
    return union(
      production,
      this.#tasks(direct, (target) => target === "boundaries"),
    );
  }

  /** Tools that check and generate for every project. */
  #toolsReach(path: string): Set<string> {
    if (TEST_FILE.test(path)) return new Set();
    if (path.startsWith("tools/boundaries/")) return this.#everywhere("boundaries");
    if (path.startsWith("tools/words/")) return this.#everywhere("words");
    if (path.startsWith("tools/lint-rules/")) return this.#everywhere("lint");
    if (!path.startsWith("tools/protos/")) return new Set();
    const contracts = this.#contracts();
    return union(this.#tasks(contracts, isContractTarget), ...contracts.map((project) => this.#production(project)));
  }

  #contracts(): readonly Project[] {
    return this.#projects.filter(({ root }) => isContract(root));
  }

  /** The project's tasks but the contract ones, and what its dependents make of its production files. */
  #production(project: Project): Set<string> {
    const own = this.#tasks([project], (target) => !CONTRACT_TARGETS.includes(target));
    return union(
      own,
      this.#tasks(this.#dependents(project), (target) => DEPENDENT_TARGETS.includes(target)),
    );
  }

  /** The project's tasks, and what bundles it. */
  #compiledBy(project: Project): Set<string> {
    const own = this.#tasks([project], (target) => !CONTRACT_TARGETS.includes(target));
    return union(
      own,
      this.#tasks(this.#dependents(project), (target) => target === "build"),
    );
  }

  #dependents(project: Project): readonly Project[] {
    const found = new Set<Project>();
    const visit = (name: string): void => {
      for (const other of this.#projects) {
        if (found.has(other) || !dependsOn(other, name)) continue;
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

function dependsOn({ dependencies, devDependencies, implicitDependencies }: Project, name: string): boolean {
  return dependencies.has(name) || devDependencies.has(name) || implicitDependencies.has(name);
}

const isContract = (root: string): boolean => root === "protos" || root.startsWith("protos/");
const isContractTarget = (target: string): boolean => CONTRACT_TARGETS.includes(target);

function targetsOf({ root, ownTargets }: Project): readonly string[] {
  const build = root.startsWith("apps/") ? ["build"] : [];
  const contracts = !isContract(root) ? [] : root.startsWith("protos/testing/") ? ["generate"] : CONTRACT_TARGETS;
  return [...new Set([...COMMON_TARGETS, ...build, ...contracts, ...ownTargets])];
}

function union(...sets: readonly Iterable<string>[]): Set<string> {
  return new Set(sets.flatMap((set) => [...set]));
}
