import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { cassandraNodes, enginesOf, kafkaNames, OWN_ENGINES, prepareEngines } from "./engines.ts";

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
  assert.deepEqual(config, { "storage-proxy": {}, "dedup-worker": {}, "object-gateway": {}, concord: {} });
  const kept = JSON.parse(readFileSync(join(data, "engines.json"), "utf8")) as Record<string, string>;
  assert.deepEqual([kept["storage"], kept["log"], kept["objects"]], ["ring", "embedded", "filesystem"]);
  await prepareEngines(OWN_ENGINES, data, "unused");
  assert.equal((JSON.parse(readFileSync(join(data, "engines.json"), "utf8")) as { name: string }).name, kept["name"]);
});

test("engines: a folder that was begun on others, or before engines were there: refused, and said how to start it", async () => {
  const kafka = enginesOf({ storage: "ring", log: "kafka", objects: "filesystem", engines: root });
  const begun = folder("begun");
  await prepareEngines(OWN_ENGINES, begun, "unused");
  const older = folder("older");
  mkdirSync(join(older, "concord"));
  for (const data of [begun, older])
    await assert.rejects(
      prepareEngines(kafka, data, "unused"),
      /was begun with --storage ring --log embedded --objects filesystem: start it so, or give another --data/,
    );
});

test("engines: not started: refused, naming the command; names that are none too", async () => {
  const kafka = enginesOf({ storage: "ring", log: "kafka", objects: "filesystem", engines: join(root, "nothing") });
  await assert.rejects(prepareEngines(kafka, folder("none"), "unused"), /npm run engines -- start kafka/);
  const rados = enginesOf({ storage: "ring", log: "embedded", objects: "rados", engines: join(root, "nothing") });
  await assert.rejects(prepareEngines(rados, folder("no-ceph"), "unused"), /npm run engines -- start ceph/);
  assert.throws(() => enginesOf({ storage: "ring", log: "kafka", objects: "hdfs", engines: root }), /--objects takes filesystem or rados/);
  assert.throws(
    () => enginesOf({ storage: "hbase", log: "kafka", objects: "filesystem", engines: root }),
    /--storage takes ring or cassandra/,
  );
  assert.throws(() => enginesOf({ storage: "ring", log: "pulsar", objects: "filesystem", engines: root }), /--log takes embedded or kafka/);
});

test("engines: objects in Ceph: gateways get the cluster and a namespace that the folder keeps, other services nothing", async () => {
  const engines = folder("with-ceph");
  mkdirSync(join(engines, "ceph"));
  writeFileSync(join(engines, "ceph/addresses.json"), "[]");
  const rados = enginesOf({ storage: "ring", log: "embedded", objects: "rados", engines });
  const data = folder("blobs");
  const config = await prepareEngines(rados, data, "unused");
  const { name } = JSON.parse(readFileSync(join(data, "engines.json"), "utf8")) as { name: string };
  const blobs = { objects: "rados", cephConf: join(engines, "ceph/ceph.conf"), cephUser: "admin", cephNamespace: name };
  assert.deepEqual(config, { "storage-proxy": {}, "dedup-worker": {}, "object-gateway": blobs, concord: blobs });
  assert.deepEqual(await prepareEngines(rados, data, "unused"), config);
});

test("engines: a folder that was begun before objects could be in Ceph: is one of files", async () => {
  const data = folder("before-ceph");
  writeFileSync(join(data, "engines.json"), JSON.stringify({ storage: "ring", log: "embedded", name: "concord_1" }));
  await prepareEngines(OWN_ENGINES, data, "unused");
  const rados = enginesOf({ storage: "ring", log: "embedded", objects: "rados", engines: root });
  await assert.rejects(prepareEngines(rados, data, "unused"), /begun with --storage ring --log embedded --objects filesystem/);
});

test("engines: Cassandra's tables cannot be made: the reason is the program's own", async () => {
  const engines = folder("engines");
  mkdirSync(join(engines, "cassandra"));
  writeFileSync(join(engines, "cassandra/addresses.json"), '["127.0.0.1:1"]');
  const program = join(root, "program.mjs");
  writeFileSync(program, 'console.error(process.argv.slice(2).join(" ")); process.exitCode = 1;');
  const cassandra = enginesOf({ storage: "cassandra", log: "embedded", objects: "filesystem", engines });
  await assert.rejects(
    prepareEngines(cassandra, folder("tables"), program),
    /could not be made: schema apply --backend cassandra .*--cassandra-replicas {"dc1":1}/s,
  );
});

test("engines: Cassandra's nodes are racks of one datacenter: the tables have their copies there, every service's datacenter is that one", async () => {
  const engines = folder("racks");
  mkdirSync(join(engines, "cassandra"));
  writeFileSync(join(engines, "cassandra/addresses.json"), '["127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"]');
  const program = join(root, "done.mjs");
  writeFileSync(program, "");
  const cassandra = enginesOf({ storage: "cassandra", log: "embedded", objects: "filesystem", engines });
  const shape = async (data: string) => {
    const { concord } = await prepareEngines(cassandra, folder(data), program);
    const { cassandraReplicas, cassandraDatacenter } = concord as Record<string, unknown>;
    return [cassandraReplicas, cassandraDatacenter];
  };
  assert.deepEqual(await shape("datacenters"), [{ dc1: 1, dc2: 1, dc3: 1 }, undefined]);
  writeFileSync(join(engines, "cassandra/datacenters.json"), '["dc1", "dc1", "dc1"]');
  assert.deepEqual(await shape("one-datacenter"), [{ dc1: 3 }, "dc1"]);
});

test("engines: names on Kafka and datacenters of nodes: those that the services were given, and asking changes nothing", () => {
  const engines = folder("names");
  for (const engine of ["kafka", "cassandra"]) {
    mkdirSync(join(engines, engine));
    writeFileSync(join(engines, engine, "addresses.json"), '["127.0.0.1:1", "127.0.0.1:2"]');
  }
  const all = enginesOf({ storage: "cassandra", log: "kafka", objects: "filesystem", engines });
  const data = folder("named");
  const kept = JSON.stringify({ storage: "cassandra", log: "kafka", objects: "filesystem", name: "concord_1" });
  writeFileSync(join(data, "engines.json"), kept);
  const topics = ["concord_1_input", "concord_1_output", "concord_1_dead_letters"];
  assert.deepEqual(kafkaNames(all, data), { pipeline: "concord_1", topics, partitions: 4 });
  assert.equal(readFileSync(join(data, "engines.json"), "utf8").trim(), kept);
  assert.deepEqual(cassandraNodes(engines), ["dc1", "dc2"]);
});
