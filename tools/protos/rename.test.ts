// A field renamed in a contract breaks the build of every user of it: in a copy of the tree fields are renamed, types are generated again,
// and the compiler names each production file that reads or writes them.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

const ROOT = join(import.meta.dirname, "../..");
const RENAMED = "_as_renamed";

interface Rename {
  readonly contract: string;
  readonly proto: string;
  readonly field: string;
  /** Production files that use the field; all of them, as far as a file can be found by name and import. */
  readonly users: readonly string[];
}

const RENAMES: readonly Rename[] = [
  {
    contract: "storage",
    proto: "group_log.proto",
    field: "previous_epoch",
    users: ["apps/storage-proxy/src/rpc/group-log-append.ts", "libs/adapter-storage-proxy/src/storage-proxy-group-log.ts"],
  },
  {
    contract: "txn",
    proto: "transactions.proto",
    field: "skip_read",
    users: ["apps/txn-coordinator/src/rpc/lock.ts", "apps/txn-coordinator/src/rpc/start.ts", "libs/client/src/transaction.ts"],
  },
  {
    contract: "dedup",
    proto: "output.proto",
    field: "from_offset",
    users: ["apps/dedup-worker/src/rpc/consume.ts", "apps/dedup-worker/src/rpc/read.ts", "libs/client/src/messages.ts"],
  },
  { contract: "txn", proto: "transactions.proto", field: "flush_size", users: ["apps/txn-coordinator/src/rpc/commit.ts"] },
  { contract: "txn", proto: "topology.proto", field: "schema_version", users: ["apps/txn-coordinator/src/rpc/get-topology.ts"] },
  { contract: "object", proto: "admin.proto", field: "dangling_refs", users: ["apps/object-gateway/src/rpc/check-consistency.ts"] },
  { contract: "ids", proto: "ids.proto", field: "count", users: ["apps/txn-coordinator/src/rpc/generate-ids.ts"] },
  {
    contract: "common",
    proto: "cells.proto",
    field: "binds",
    users: ["apps/storage-proxy/src/rpc/query.ts", "apps/txn-coordinator/src/rpc/wire.ts", "libs/client/src/transaction.ts"],
  },
];

let tree = "";
before(() => {
  tree = mkdtempSync(join(realpathSync(tmpdir()), "concord-rename-"));
  const listed = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 26 });
  const sources = listed.split("\n").filter((path) => /\.(ts|mjs|json|proto|yaml)$/.test(path) && existsSync(join(ROOT, path)));
  for (const path of sources) cpSync(join(ROOT, path), join(tree, path), { recursive: true });
  linkPackages();
});
after(() => rmSync(tree, { recursive: true, force: true }));

/** Third-party packages are those of this tree; links to the workspace's own lead to the copies. */
function linkPackages(): void {
  const [from, to] = [join(ROOT, "node_modules"), join(tree, "node_modules")];
  mkdirSync(join(to, "@concord"), { recursive: true });
  for (const name of readdirSync(from)) if (name !== "@concord") symlinkSync(join(from, name), join(to, name));
  for (const name of readdirSync(join(from, "@concord"))) {
    symlinkSync(readlinkSync(join(from, "@concord", name)), join(to, "@concord", name));
  }
}

function run(...args: readonly string[]): string {
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: tree, encoding: "utf8", maxBuffer: 1 << 26 });
  return `${stdout}${stderr}`;
}

/** The files of a whole build that do not compile. */
function brokenFiles(): ReadonlySet<string> {
  const include = ["apps", "libs", "testing", "protos"].map((folder) => `./${folder}/**/*.ts`);
  const config = { extends: "./tsconfig.base.json", include, exclude: ["node_modules", "**/dist"] };
  writeFileSync(join(tree, "tsconfig.all.json"), JSON.stringify(config));
  const output = run(join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.all.json", "--pretty", "false");
  return new Set([...output.matchAll(/^(\S+)\(\d+,\d+\): error TS/gm)].map((match) => match[1]!));
}

test("contracts: as they are: everything compiles", () => {
  assert.equal(run("tools/protos/generate.ts"), "");
  assert.deepEqual([...brokenFiles()], []);
  writeFileSync(join(tree, "libs/runtime/src/seeded.ts"), "export const seeded: number = true;\n");
  assert.deepEqual([...brokenFiles()], ["libs/runtime/src/seeded.ts"]);
  rmSync(join(tree, "libs/runtime/src/seeded.ts"));
});

test("contracts: fields renamed in every package: the build of each user breaks", () => {
  for (const { contract, proto, field } of RENAMES) {
    const path = join(tree, `protos/concord/${contract}/v1/${proto}`);
    const text = readFileSync(path, "utf8");
    const renamed = text.replaceAll(new RegExp(`(?<= )${field}(?= = \\d)`, "g"), `${field}${RENAMED}`);
    assert.notEqual(renamed, text, `${proto} has no field ${field}`);
    writeFileSync(path, renamed);
  }
  assert.equal(run("tools/protos/generate.ts"), "");
  const broken = brokenFiles();
  for (const { field, users } of RENAMES) {
    const missed = users.filter((user) => !broken.has(user));
    assert.deepEqual(missed, [], `${field} was renamed, and these still compile`);
  }
});
