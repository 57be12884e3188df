// The page of limits that users read is what coordinators enforce.
import { LOCK_LIMITS } from "@concord/locks";
import { SCHEMA_LIMITS } from "@concord/schema";
import { HELD_BYTES_MAX, TRANSACTION_LIMITS } from "@concord/transactions";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { txnCoordinatorSchema } from "./index.ts";
import { LOCK_KEYS_MAX, PAGE_ROWS_MAX, READ_KEYS_MAX } from "./limits.ts";

const README = join(import.meta.dirname, "../../../libs/client/README.md");
const ROW = /^\| [^|]+ \| `(\w+)` \| (\d+) \|$/gm;

test("limits: the page of libs/client/README.md: each row is the limit of that name", () => {
  const config = txnCoordinatorSchema.parse({
    nodeName: "c0",
    listenAddress: "c0:1",
    coordinatorToken: "secret-c",
    operatorToken: "secret-o",
    storageProxies: [{ name: "none", address: "none:1" }],
  });
  const { lifetimeMs, idleTimeoutMs, lockTimeoutMs } = config;
  const enforced: Readonly<Record<string, unknown>> = {
    ...TRANSACTION_LIMITS,
    ...LOCK_LIMITS,
    ...SCHEMA_LIMITS,
    HELD_BYTES_MAX,
    LOCK_KEYS_MAX,
    PAGE_ROWS_MAX,
    READ_KEYS_MAX,
    lifetimeMs,
    idleTimeoutMs,
    lockTimeoutMs,
  };
  const section = readFileSync(README, "utf8").split("## Limits of a transaction")[1]!.split("\n## ")[0]!;
  const rows = [...section.matchAll(ROW)];
  assert.equal(rows.length, 17);
  for (const [, name, value] of rows) assert.equal(Number(value), enforced[name!], name);
});
