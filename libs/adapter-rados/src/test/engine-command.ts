import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { folder } from "./real-rados.ts";

/** `npm run engines -- COMMAND ceph --node NAME` on the test's cluster. */
export function engine(command: "kill" | "start" | "pause" | "resume", node: "osd" | "mon"): void {
  const args = ["tools/engines/main.ts", command, "ceph", "--data", folder, "--node", node];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(status, 0, `${stdout}${stderr}`);
}
