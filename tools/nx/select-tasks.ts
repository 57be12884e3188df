// Which tasks a change reaches, from the plan Nx hashes each task by: a task whose plan names no changed file has its old hash, and its
// old result stands. `nx affected` selects by project instead: every target of every dependent.
import { dirname } from "node:path";
import type { ChangedPackages } from "./changed-packages.ts";

export interface ChangedFile {
  readonly path: string;
  /** Added or deleted; a renamed file is both, under two paths. */
  readonly isNewOrGone: boolean;
}

export interface Change {
  readonly files: readonly ChangedFile[];
  readonly packages: ChangedPackages;
}

/** The instructions Nx hashes each task by, as its HashPlanner writes them. */
export type Plans = Readonly<Record<string, readonly string[]>>;

/** For each path whether the globs match it, `!` excluding. The one that hashes is Nx's own. */
export type MatchGlobs = (globs: string[], paths: string[]) => boolean[];

const WORKSPACE_FILES = /^workspace:\[(.*)\]$/;
const WORKSPACE_ROOT = "{workspaceRoot}/";
const MANIFESTS = ["package.json", "project.json"];
const EXTERNAL_PACKAGE = /^npm:(.[^@]*)/;
const COMPILER_OPTIONS = ["tsconfig.base.json", "tsconfig.json"];
/** Read when the task is hashed, from no file of the repository. */
const NO_FILE = /^(env|runtime):/;

/**
 * The tasks of `plans` that the changed files and packages reach; `roots` has the folder of every project. An instruction of an unknown
 * form selects.
 */
export function selectTasks(
  { files, packages }: Change,
  plans: Plans,
  roots: Readonly<Record<string, string>>,
  matchGlobs: MatchGlobs,
): Set<string> {
  const reach = new Reach({ files, packages }, roots, matchGlobs);
  return new Set(Object.keys(plans).filter((task) => files.length > 0 && plans[task]!.some((instruction) => reach.has(instruction))));
}

/** Which instructions the changed files reach. Tasks share most of theirs: each is answered once. */
class Reach {
  readonly #changed: readonly ChangedFile[];
  readonly #packages: ChangedPackages;
  readonly #paths: string[];
  readonly #roots: Readonly<Record<string, string>>;
  readonly #matchGlobs: MatchGlobs;
  readonly #answers = new Map<string, boolean>();

  constructor({ files, packages }: Change, roots: Readonly<Record<string, string>>, matchGlobs: MatchGlobs) {
    this.#changed = files;
    this.#packages = packages;
    this.#paths = files.map(({ path }) => path);
    this.#roots = roots;
    this.#matchGlobs = matchGlobs;
  }

  has(instruction: string): boolean {
    const known = this.#answers.get(instruction);
    if (known !== undefined) return known;
    const answer = this.#compute(instruction);
    this.#answers.set(instruction, answer);
    return answer;
  }

  #compute(instruction: string): boolean {
    if (NO_FILE.test(instruction)) return false;
    if (instruction === "AllExternalDependencies") return this.#packages === "all" || this.#packages.size > 0;
    const externalPackage = EXTERNAL_PACKAGE.exec(instruction);
    if (externalPackage !== null) return this.#packages === "all" || this.#packages.has(externalPackage[1]!);
    const workspaceFiles = WORKSPACE_FILES.exec(instruction);
    if (workspaceFiles !== null) return this.#matches(splitGlobs(workspaceFiles[1]!.replaceAll(WORKSPACE_ROOT, "")), this.#paths);
    const colon = instruction.indexOf(":");
    const [project, rest] = [instruction.slice(0, colon), instruction.slice(colon + 1)];
    const root = this.#roots[project];
    if (root === undefined) return true;
    if (rest === "TsConfig") return this.#anyOf(COMPILER_OPTIONS);
    if (rest === "ProjectConfiguration") return this.#anyOf(MANIFESTS.map((name) => `${root}/${name}`));
    return this.#matches(splitGlobs(rest), this.#ownedBy(root));
  }

  #anyOf(paths: readonly string[]): boolean {
    return this.#paths.some((path) => paths.includes(path));
  }

  #matches(globs: string[], paths: string[]): boolean {
    return paths.length > 0 && this.#matchGlobs(globs, paths).includes(true);
  }

  /**
   * The changed files of the project there, without those of a project inside it. A new or removed package.json inside moves the border
   * between the two, with files that did not change: it counts for the outer one too.
   */
  #ownedBy(root: string): string[] {
    return this.#changed
      .filter(({ path, isNewOrGone }) =>
        isNewOrGone && path.endsWith("/package.json") ? path.startsWith(`${root}/`) : this.#ownerRoot(path) === root,
      )
      .map(({ path }) => path);
  }

  #ownerRoot(path: string): string | undefined {
    const roots = new Set(Object.values(this.#roots));
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) if (roots.has(folder)) return folder;
    return undefined;
  }
}

/** At the commas that are outside of braces: `a/{b,c}/*,!d` is two. */
function splitGlobs(text: string): string[] {
  const globs: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "{") depth += 1;
    else if (text[at] === "}") depth -= 1;
    else if (text[at] === "," && depth === 0) {
      globs.push(text.slice(start, at));
      start = at + 1;
    }
  }
  globs.push(text.slice(start));
  return globs;
}
