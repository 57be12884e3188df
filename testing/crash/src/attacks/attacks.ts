// The attacks there are, and the run of all or some of them.
import { client } from "./client.ts";
import type { Attack } from "./attack.ts";
import { busyDrain } from "./drain.ts";
import { damagedInput } from "./damaged-input.ts";
import { damagedFiles } from "./damaged-files.ts";
import { damagedPart, damagedParts } from "./damaged-parts.ts";
import { clockAhead } from "./clock-ahead.ts";
import { deadPeer, deadPeerDisk, deadPeerSeparate } from "./dead-peer.ts";
import { descriptors, descriptorsLong } from "./descriptors.ts";
import { filledDisk } from "./filled-disk.ts";
import { fullNode } from "./full-node.ts";
import { inflatedRequests, unfinishedRequests, unreadReflection } from "./grpc-strangers.ts";
import { hostileTenant } from "./hostile-tenant.ts";
import { largeRow } from "./large-row.ts";
import { largeStatements } from "./large-statements.ts";
import { silentGrpcConnections, silentS3Connections } from "./silent-connections.ts";
import { tokenFloods } from "./token-floods.ts";
import { inflatedByToken, unfinishedByToken } from "./token-requests.ts";
import { mib, type Result, runAttack } from "./target.ts";

export const ATTACKS: readonly Attack[] = [
  damagedInput,
  damagedPart,
  damagedParts,
  damagedFiles,
  silentS3Connections,
  silentGrpcConnections,
  descriptors,
  descriptorsLong,
  filledDisk,
  fullNode,
  inflatedRequests,
  unfinishedRequests,
  unreadReflection,
  tokenFloods,
  inflatedByToken,
  unfinishedByToken,
  largeStatements,
  hostileTenant,
  clockAhead,
  busyDrain,
  deadPeer,
  deadPeerDisk,
  deadPeerSeparate,
  largeRow,
];

/** Runs the named attacks, or all, or those of the short form; returns whether none succeeded. */
export async function runAttacks(names: readonly string[], isShort: boolean): Promise<boolean> {
  const unknown = names.find((name) => !ATTACKS.some((attack) => attack.name === name));
  if (unknown !== undefined) throw new Error(`--attack takes ${ATTACKS.map(({ name }) => name).join(", ")}, not ${unknown}`);
  const chosen = ATTACKS.filter(({ name, isShort: short }) => (names.length === 0 ? short || !isShort : names.includes(name)));
  let failed = 0;
  let lost = 0;
  for (const attack of chosen) {
    const missing = attack.missing?.();
    if (missing !== undefined) {
      console.log(`${attack.name}: skipped: ${missing}`);
      if (process.env["CI"] !== undefined) failed += 1;
      continue;
    }
    console.log(`${attack.name}: before the mend ${attack.symptom}`);
    const result = await runAttack(attack, client).catch((error: unknown) => failedStart(attack, error));
    console.log(describe(result));
    if (result.problems.length > 0) failed += 1;
    lost += result.lost.length;
  }
  console.log(`${chosen.length} attacks, ${failed} succeeded, ${lost} services lost`);
  console.log(`${chosen.length - failed} passed, ${failed} failed`);
  return failed === 0;
}

function failedStart({ name }: Attack, error: unknown): Result {
  const none = { residentMiB: 0, descriptors: 0 };
  const acknowledged = { "storage-proxy": 0, "txn-coordinator": 0, "object-gateway": 0, "dedup-worker": 0 };
  return { attack: name, lost: [], problems: [String(error)], notes: [], before: none, peak: none, after: none, acknowledged };
}

function describe({ attack, lost, problems, notes, before, peak, after, acknowledged }: Result): string {
  const counts = Object.entries(acknowledged).map(([service, count]) => `${service} ${count}`);
  const descriptors = [before, peak, after].map((measured) => measured.descriptors);
  return [
    `${attack}: ${problems.length === 0 ? "held" : "SUCCEEDED"}: ${lost.length} of 4 services lost`,
    `  resident ${mib(before)} -> ${mib(peak)} -> ${mib(after)} MiB, descriptors ${descriptors.join(" -> ")} (before, most, after)`,
    `  acknowledged to others: ${counts.join(", ")}`,
    ...notes.map((note) => `  ${note}`),
    ...problems.map((problem) => `  FAILED: ${problem}`),
  ].join("\n");
}
