import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { enginesOf, OWN_ENGINES, prepareEngines } from "./engines.ts";

const root = mkdtempSync(join(tmpdir(), "concord-engines-"));
after(() => rmSync(root, { recursive: true, force: true }));

function folder(name: string): string {
  const path = join(root, name);
  mkdirSync(path);
  return path;
}

test("engines: none: no service gets anything of them, and the folder remembers", async () => {
  const data = folder("own");
  const config = await prepareEngines(OWN_ENGINES, data, "unused");
  assert.deepEqual(config, { "storage-proxy": {}, "dedup-worker": {}, concord: {} });
  const kept = JSON.parse(readFileSync(join(data, "engines.json"), "utf8")) as { storage: string; log: string; name: string };
  assert.deepEqual([kept.storage, kept.log], ["ring", "embedded"]);
  await prepareEngines(OWN_ENGINES, data, "unused");
  assert.equal((JSON.parse(readFileSync(join(data, "engines.json"), "utf8")) as { name: string }).name, kept.name);
});

test("engines: a folder that was begun on others, or before engines were there: refused, and said how to start it", async () => {
  const kafka = enginesOf({ storage: "ring", log: "kafka", engines: root });
  const begun = folder("begun");
  await prepareEngines(OWN_ENGINES, begun, "unused");
  const older = folder("older");
  mkdirSync(join(older, "concord"));
  for (const data of [begun, older])
    await assert.rejects(
      prepareEngines(kafka, data, "unused"),
      /was begun with --storage ring --log embedded: start it so, or give another --data/,
    );
});

test("engines: not started: refused, naming the command; names that are none too", async () => {
  const kafka = enginesOf({ storage: "ring", log: "kafka", engines: join(root, "nothing") });
  await assert.rejects(prepareEngines(kafka, folder("none"), "unused"), /npm run engines -- start kafka/);
  assert.throws(() => enginesOf({ storage: "hbase", log: "kafka", engines: root }), /--storage takes ring or cassandra/);
  assert.throws(() => enginesOf({ storage: "ring", log: "pulsar", engines: root }), /--log takes embedded or kafka/);
});

test("engines: Cassandra's tables cannot be made: the reason is the program's own", async () => {
  const engines = folder("engines");
  mkdirSync(join(engines, "cassandra"));
  writeFileSync(join(engines, "cassandra/addresses.json"), '["127.0.0.1:1"]');
  const program = join(root, "program.mjs");
  writeFileSync(program, 'console.error(process.argv.slice(2).join(" ")); process.exitCode = 1;');
  const cassandra = enginesOf({ storage: "cassandra", log: "embedded", engines });
  await assert.rejects(
    prepareEngines(cassandra, folder("tables"), program),
    /could not be made: schema apply --backend cassandra .*--cassandra-replicas {"dc1":1}/s,
  );
});
