import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { changedPackages } from "./changed-packages.ts";
import type { Change, ChangedFile } from "./select-tasks.ts";

const LOCK_FILE = "package-lock.json";

/** What differs from where `head` left `base`; without a head, in the work tree: committed, not committed and not added. */
export function changeSince(folder: string, base: string, head?: string): Change {
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
  const from = branchPoint();
  const range = [from, ...(head === undefined ? [] : [head])];
  const textAt = (commit: string): string | undefined => orNone(() => git("show", `${commit}:./${LOCK_FILE}`));
  const differing = (...filter: string[]): string[] =>
    paths(git("diff", "--name-only", "--no-renames", "--relative", "-z", ...filter, ...range, "--"));
  const added = head === undefined ? paths(git("ls-files", "--others", "--exclude-standard", "-z")) : [];
  const files: ChangedFile[] = [
    ...differing("--diff-filter=ad").map((path) => ({ path, isNewOrGone: false })),
    ...[...differing("--diff-filter=AD"), ...added].map((path) => ({ path, isNewOrGone: true })),
  ];
  if (!files.some(({ path }) => path === LOCK_FILE)) return { files, packages: new Set() };
  const now = head === undefined ? orNone(() => readFileSync(join(folder, LOCK_FILE), "utf8")) : textAt(head);
  return { files, packages: changedPackages(textAt(from), now) };
}

function orNone(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
