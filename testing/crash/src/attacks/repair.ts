import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Target } from "./attack.ts";

const PROGRAM = fileURLToPath(import.meta.resolve("@concord/concord/main"));

/** Resolves with what `concord repair` printed, and its exit code. */
export async function repair(target: Target, flags: readonly string[]): Promise<{ readonly code: number; readonly text: string }> {
  const args = [PROGRAM, "repair", target.dataFolder(target.name), "--apply", ...flags];
  return promisify(execFile)(process.execPath, args).then(
    ({ stdout }) => ({ code: 0, text: stdout }),
    (error: { code: number; stdout: string }) => ({ code: error.code, text: error.stdout }),
  );
}
