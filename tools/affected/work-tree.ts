import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface Probe {
  /** Tasks `nx affected` would select for what is uncommitted. */
  readonly selected: readonly string[];
  readonly hashes: Readonly<Record<string, string>>;
}

/** Any fixed time before every real one. */
const FIRST_MODIFIED_SECONDS = 1_000_000_000;
const RUN_REPORT = ".nx/cache/run.json";
const WORKSPACE_LINKS = "@concord";

/** A clone of the last commit in a temporary folder, with the installed packages linked in. Edits there change nothing else. */
export class WorkTree {
  readonly root: string;
  #applied: string[] = [];
  #modifiedSeconds = FIRST_MODIFIED_SECONDS;

  private constructor(root: string) {
    this.root = root;
  }

  static create(origin: string): WorkTree {
    const tree = new WorkTree(mkdtempSync(join(tmpdir(), "concord-affected-")));
    execFileSync("git", ["clone", "--quiet", "--local", origin, tree.root]);
    tree.#git("config", "user.email", "oracle@concord.invalid");
    tree.#git("config", "user.name", "oracle");
    linkPackages(join(origin, "node_modules"), join(tree.root, "node_modules"));
    return tree;
  }

  read(path: string): string {
    return readFileSync(join(this.root, path), "utf8");
  }

  apply(files: Readonly<Record<string, string | undefined>>): void {
    this.#applied.push(...Object.keys(files));
    for (const [path, text] of Object.entries(files)) {
      const target = join(this.root, path);
      mkdirSync(dirname(target), { recursive: true });
      if (text === undefined) rmSync(target);
      else writeFileSync(target, text);
    }
    this.#stamp();
  }

  /** Takes back everything applied since the last commit. */
  reset(): void {
    this.#git("reset", "--quiet", "--hard");
    this.#git("clean", "--quiet", "-fd");
    this.#stamp();
    this.#applied = [];
  }

  /** Nx takes a file whose modification time is in the same second for unchanged; edits by people are slower than ours. */
  #stamp(): void {
    this.#modifiedSeconds += 1;
    for (const path of this.#applied.map((file) => join(this.root, file)).filter((file) => existsSync(file))) {
      utimesSync(path, this.#modifiedSeconds, this.#modifiedSeconds);
    }
  }

  commit(): void {
    this.#git("add", "--all");
    this.#git("commit", "--quiet", "--no-verify", "--message", "seeded");
  }

  probe(targets: readonly string[]): Probe {
    const script = join(import.meta.dirname, "nx-probe.mjs");
    const output = execFileSync(process.execPath, [script, ...targets], {
      cwd: this.root,
      env: this.#env(),
      encoding: "utf8",
      maxBuffer: 2 ** 26,
    });
    return JSON.parse(output) as Probe;
  }

  /** Runs Nx; what was red by task name. */
  nx(...args: readonly string[]): { readonly isGreen: boolean; readonly red: readonly string[] } {
    rmSync(join(this.root, RUN_REPORT), { force: true });
    const command = [join(this.root, "node_modules/nx/dist/bin/nx.js"), ...args, "--outputStyle=static"];
    const { status } = spawnSync(process.execPath, command, { cwd: this.root, env: this.#env(), stdio: "ignore" });
    const report = existsSync(join(this.root, RUN_REPORT)) ? this.read(RUN_REPORT) : '{ "tasks": [] }';
    const { tasks } = JSON.parse(report) as { tasks: readonly { taskId: string; status: number }[] };
    return { isGreen: status === 0, red: tasks.filter((task) => task.status !== 0).map((task) => task.taskId) };
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true });
  }

  /** Nothing of an Nx that may be running us. */
  #env(): NodeJS.ProcessEnv {
    return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("NX_")));
  }

  #git(...args: readonly string[]): void {
    execFileSync("git", args, { cwd: this.root });
  }
}

/** Every installed package as a link to the original, but the workspace's own ones into the clone. */
function linkPackages(from: string, to: string): void {
  mkdirSync(join(to, WORKSPACE_LINKS), { recursive: true });
  for (const name of readdirSync(from)) {
    if (name !== WORKSPACE_LINKS) symlinkSync(join(from, name), join(to, name));
  }
  for (const name of readdirSync(join(from, WORKSPACE_LINKS))) {
    symlinkSync(readlinkSync(join(from, WORKSPACE_LINKS, name)), join(to, WORKSPACE_LINKS, name));
  }
}
