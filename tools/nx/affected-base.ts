import { execFileSync } from "node:child_process";

/** In a clone without a local main (a detached checkout, another name) the remote's is as good. */
const MAIN_BRANCHES = ["main", "origin/main", "origin/HEAD"];

export class NoBaseError extends Error {}

/**
 * The commit to compare with: the one given, where HEAD left main, or on main `lastGreen`, else its first commit. NoBaseError when nothing
 * says where main is, or the commit given is none.
 */
export function affectedBase(folder: string, given: string | undefined, lastGreen: string | undefined): string {
  const git = (...args: string[]): string | undefined => {
    try {
      return execFileSync("git", args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    } catch {
      return undefined;
    }
  };
  const commitOf = (name: string): string | undefined => git("rev-parse", "--verify", "--quiet", `${name}^{commit}`);
  if (given !== undefined) {
    if (commitOf(given) === undefined)
      throw new NoBaseError(`--base ${given} is no commit of this clone; a shallow clone needs git fetch --unshallow`);
    return given;
  }
  const main = MAIN_BRANCHES.find((name) => commitOf(name) !== undefined);
  const branchPoint = main === undefined ? undefined : git("merge-base", "HEAD", main);
  if (branchPoint === undefined) {
    const tried =
      main === undefined ? `none of ${MAIN_BRANCHES.join(", ")} exists in this clone` : `HEAD and ${main} have no commit in common`;
    throw new NoBaseError(`no commit to compare with: ${tried}; name one: npm run affected -- --base COMMIT, or git fetch origin main`);
  }
  if (branchPoint !== commitOf("HEAD")) return branchPoint;
  return lastGreen ?? git("rev-list", "--max-parents=0", "HEAD")!.split("\n")[0]!;
}
