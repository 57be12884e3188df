// Power cuts without pulling a plug: a file system of its own per process, shut down so that everything unsynced is gone, and mounted anew.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const IMAGE_BYTES = 2 * 1024 ** 3;
const UNMOUNT_TRIES = 50;
const UNMOUNT_RETRY_MS = 20;

export interface PowerSupply {
  /** From now on nothing reaches the disk any more, and what had not been synced never did. */
  cut(): void;
  /** Mounts what is left. The processes that used it must have ended. */
  restore(): Promise<void>;
  remove(): Promise<void>;
}

/** Why there can be no power cuts here; undefined when there can. */
export function powerProblem(): string | undefined {
  if (process.getuid?.() !== 0) return "only root may mount file systems";
  const missing = ["mkfs.ext4", "xfs_io", "mount", "umount"].filter((program) => !isThere(program));
  if (missing.length > 0 && !installed()) return `${missing.join(", ")} is not installed (Debian: e2fsprogs, xfsprogs, mount)`;
  return undefined;
}

/** Mounts a new ext4 at `folder`; throws where loop devices are not to be had. */
export function powerSupply(folder: string): PowerSupply {
  const image = `${folder}.ext4`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(image, "");
  truncateSync(image, IMAGE_BYTES);
  execFileSync("mkfs.ext4", ["-q", "-F", image]);
  const mount = (): void => void execFileSync("mount", ["-o", "loop", image, folder], { stdio: "pipe" });
  mount();
  return {
    cut: () => void execFileSync("xfs_io", ["-x", "-c", "shutdown", folder]),
    async restore() {
      await unmount(folder);
      mount();
    },
    async remove() {
      await unmount(folder);
      rmSync(image);
    },
  };
}

/** A process that was killed may hold its files for a moment longer. */
async function unmount(folder: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      execFileSync("umount", [folder], { stdio: "pipe" });
      return;
    } catch (error) {
      if (attempt === UNMOUNT_TRIES) throw error;
      await sleep(UNMOUNT_RETRY_MS);
    }
  }
}

function isThere(program: string): boolean {
  try {
    execFileSync("which", [program], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

function installed(): boolean {
  try {
    execFileSync("apt-get", ["install", "-y", "-qq", "--no-install-recommends", "xfsprogs", "e2fsprogs", "mount"], { stdio: "ignore" });
    return isThere("xfs_io") && isThere("mkfs.ext4");
  } catch {
    return false;
  }
}
