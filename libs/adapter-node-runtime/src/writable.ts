import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ConcordError } from "@concord/runtime";

export type Writable =
  | { readonly kind: "writable" }
  /** Its file system takes no writes: nothing below it can change while it is so. */
  | { readonly kind: "read-only"; readonly reason: string };

/** STORE_FAILED, with what to do, for a program that does nothing without writing. */
export async function requireWritable(folder: string): Promise<void> {
  const writable = await writableOf(folder);
  if (writable.kind === "writable") return;
  throw new ConcordError("STORE_FAILED", `${writable.reason}: mount it for writing, then start again`, { applied: "no" });
}

/**
 * What a program may do with its data folder; of one that is absent, with the folder that it would be made in. STORE_FAILED: this user may not
 * write there, while others may, so what is in it can change at any time.
 */
export async function writableOf(folder: string): Promise<Writable> {
  const path = resolve(folder);
  try {
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    return { kind: "writable" };
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" && dirname(path) !== path) return writableOf(dirname(path));
    if (code === "EROFS") return { kind: "read-only", reason: `${path} is on a file system that takes no writes` };
    const what = `${path} cannot be read and written by this user (${code}): give it to the user of this process, or run as the folder's`;
    throw new ConcordError("STORE_FAILED", what, { applied: "no", cause });
  }
}
