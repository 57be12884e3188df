import { execFileSync } from "node:child_process";
import type { ChangedFile } from "./select-tasks.ts";

/** What differs from where `head` left `base`; without a head, in the work tree: committed, not committed and not added. */
export function changedFiles(folder: string, base: string, head: string | undefined): ChangedFile[] {
  const git = (...args: string[]): string =>
    execFileSync("git", args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 2 ** 28 });
  const paths = (text: string): string[] => text.split("\0").filter((path) => path !== "");
  const branchPoint = (): string => {
    try {
      return git("merge-base", base, head ?? "HEAD").trim();
    } catch {
      return base;
    }
  };
  const range = [branchPoint(), ...(head === undefined ? [] : [head])];
  const differing = (...filter: string[]): string[] =>
    paths(git("diff", "--name-only", "--no-renames", "--relative", "-z", ...filter, ...range, "--"));
  const added = head === undefined ? paths(git("ls-files", "--others", "--exclude-standard", "-z")) : [];
  return [
    ...differing("--diff-filter=ad").map((path) => ({ path, isNewOrGone: false })),
    ...[...differing("--diff-filter=AD"), ...added].map((path) => ({ path, isNewOrGone: true })),
  ];
}
