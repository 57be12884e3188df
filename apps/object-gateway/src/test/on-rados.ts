// Gateways over the pool of the cluster whose folder is in ENGINE_CEPH.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { admin, type Program, type Report } from "./program.ts";

const folder = process.env["ENGINE_CEPH"] ?? "";
export const conf = join(folder, "ceph.conf");

export const newNamespace = (): string => `gateway-${randomBytes(6).toString("hex")}`;

export const flagsFor = (namespace: string): string[] =>
  `--objects rados --ceph-conf ${conf} --ceph-user admin --ceph-pool concord --ceph-namespace ${namespace}`.split(" ");

/** `npm run engines -- COMMAND ceph --node NAME` on the test's cluster. */
export function engine(command: "kill" | "start" | "pause" | "resume", node: "osd" | "mon"): void {
  const args = ["tools/engines/main.ts", command, "ceph", "--data", folder, "--node", node];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  assert.equal(status, 0, `${stdout}${stderr}`);
}

export async function recovered(program: Program): Promise<void> {
  while (!(await admin<{ recovered: boolean }>(program, "GetStatus")).recovered);
}

export async function report(program: Program): Promise<Report> {
  await admin(program, "CollectGarbage", { aheadMs: 3_600_001n });
  return admin<Report>(program, "CheckConsistency");
}
