// A file system of its own in memory, for tests of disks that are full or take no writes.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class MountedDisk {
  readonly folder = mkdtempSync(join(tmpdir(), "concord-mounted-disk-"));
  /** Why it cannot be mounted here, as `test` takes it; false: it is mounted. */
  readonly skip: string | false;

  constructor({ mib }: { readonly mib: number }) {
    const refusal = mount("-t", "tmpfs", "-o", `size=${mib}m`, "concord-test", this.folder);
    this.skip = refusal === undefined ? false : `a file system cannot be mounted here (Linux, as root): ${refusal}`;
  }

  /** Throws when files are open for writing. */
  remount(as: "read-only" | "writable"): void {
    const refusal = mount("-o", `remount,${as === "writable" ? "rw" : "ro"}`, this.folder);
    if (refusal !== undefined) throw new Error(`${this.folder} is not ${as}: ${refusal}`);
  }

  /** Each file's name with the hash of its bytes, sorted. */
  contents(): readonly string[] {
    const files = readdirSync(this.folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    return files.map((file) => named(join(file.parentPath, file.name))).sort();
  }

  remove(): void {
    if (this.skip === false) spawnSync("umount", ["--lazy", this.folder]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function named(path: string): string {
  return `${path} ${createHash("sha256").update(readFileSync(path)).digest("hex")}`;
}

/** Undefined: it worked. */
function mount(...args: readonly string[]): string | undefined {
  const { status, stderr, error } = spawnSync("mount", args, { encoding: "utf8" });
  return status === 0 ? undefined : (error?.message ?? stderr.trim());
}
