// One flipped bit in a block of rows of a node alone: everything serves, and of the rows those alone are refused that may have been in the block.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ConcordClient } from "@concord/client";
import type { Target } from "./attack.ts";
import { repair } from "./repair.ts";

const TABLE = "CREATE TABLE shelved (id int PRIMARY KEY, body text) WITH kind = 'plain'";
/** A block has 4 KiB: some 40 of them. */
const ROWS = 400;
const DAMAGED = 200;
const CALL_MS = 60_000;
const bodyOf = (id: number): string => `shelved ${id} ${"x".repeat(90)}`;

/** False: no table has the row. */
function damageRow(folder: string, id: number): boolean {
  for (const name of readdirSync(folder).filter((one) => one.endsWith(".ldb"))) {
    const path = join(folder, name);
    const content = readFileSync(path);
    const at = content.indexOf(`shelved ${id} `);
    if (at < 0) continue;
    content.writeUInt8(content.readUInt8(at) ^ 4, at);
    writeFileSync(path, content);
    return true;
  }
  return false;
}

/** Ids whose reads are refused; a row that is answered must be the one that was acknowledged. */
async function refusedOf(target: Target, db: ConcordClient): Promise<ReadonlySet<number>> {
  const refused = new Set<number>();
  for (let id = 0; id < ROWS; id += 1) {
    try {
      const row = await db.read("shelved", { id });
      if (row?.["body"] !== bodyOf(id)) target.fail(`row ${id} is ${JSON.stringify(row?.["body"])} beside a damaged block`);
    } catch (thrown) {
      const { code, applied } = thrown as { readonly code?: string; readonly applied?: string };
      if (code !== "CORRUPT_DATA" || applied !== "no") target.fail(`row ${id}: ${String(thrown)}`);
      refused.add(id);
    }
  }
  return refused;
}

export async function attackBlock(target: Target): Promise<void> {
  const what = "a block of rows";
  const { address, clientToken: token } = target;
  const db = await target.client.connect({ coordinators: [address], token, timeoutMs: CALL_MS });
  try {
    await db.createTables([TABLE]);
    for (let id = 0; id < ROWS; id += 1) await db.insert("shelved", { id, body: bodyOf(id) });
    // LevelDB makes a table of its log at the next opening.
    await target.stop();
    await target.start();
    await target.stop();
    if (!damageRow(join(target.dataFolder(target.name), "storage/store"), DAMAGED)) target.fail(`${what}: no table has the row`);
    await target.start();
    await target.serves(`while ${what} is damaged`);
    const refused = await refusedOf(target, db);
    if (!refused.has(DAMAGED) || refused.size > ROWS / 2) target.fail(`${what}: ${refused.size} of ${ROWS} rows are refused`);
    await target.stop();
    const { code, text } = await repair(target, ["--accept-loss"]);
    if (code !== 0) target.fail(`concord repair --accept-loss left ${what}: ${text}`);
    await target.start();
    await target.serves(`after the loss of ${what} was accepted`);
    for (const id of refused) await db.insert("shelved", { id, body: bodyOf(id) });
    if ((await refusedOf(target, db)).size > 0) target.fail(`${what}: rows are refused after the loss was accepted`);
    target.note(`${what}: nothing out, ${refused.size} of ${ROWS} rows refused`);
  } finally {
    db.close();
  }
}
