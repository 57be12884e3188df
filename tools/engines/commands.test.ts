import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { artefactFolder } from "./artefacts.ts";
import { cassandraEngine, contactPointsOf } from "./cassandra-engine.ts";
import { cephEngine } from "./ceph-engine.ts";
import { readCommandLine } from "./command-line.ts";
import { runCommand } from "./commands.ts";
import { Cluster } from "./cluster.ts";
import type { Engine } from "./engine.ts";
import type { Layout } from "./layout.ts";
import { brokersOf, kafkaEngine } from "./kafka-engine.ts";
import { checkFree, freePorts } from "./ports.ts";
import { missingRequirements } from "./requirements.ts";
import { fillTemplate } from "./template.ts";

const folder = mkdtempSync(join(tmpdir(), "concord-engines-"));
after(() => rmSync(folder, { recursive: true }));

const STOPPING = new AbortController().signal;
const run = (...args: readonly string[]): Promise<string[]> => {
  const lines: string[] = [];
  const command = readCommandLine(args);
  assert.ok(command !== "help");
  return runCommand(command, { report: (line) => lines.push(line), stopping: STOPPING }).then(() => lines);
};

test("engines: a machine without the programs: each is named with the command that installs it", () => {
  assert.deepEqual(
    missingRequirements(kafkaEngine, "linux", () => true),
    [],
  );
  assert.deepEqual(
    missingRequirements(kafkaEngine, "linux", (program) => program === "java"),
    ["kafka needs mvn: apt-get install maven"],
  );
  assert.match(missingRequirements(cassandraEngine, "linux", () => false).join("\n"), /java: apt-get install openjdk-17[^]*mvn: apt-get/);
  assert.match(missingRequirements(cephEngine, "linux", () => false).join("\n"), /ceph-mon: apt-get install .*ceph-osd/);
  assert.match(missingRequirements(kafkaEngine, "darwin", () => true).join("\n"), /Linux only/);
});

test("engines: a folder without a cluster: everything but start is refused", async () => {
  for (const command of ["stop", "status", "kill", "pause", "resume"])
    await assert.rejects(run(command, "kafka", "--data", join(folder, "none")), /there is no cluster of kafka/);
});

test("engines: a stopped cluster: its processes by name; another engine, node or number of nodes is refused", async () => {
  const data = join(folder, "stopped");
  await Cluster.make(data, kafkaEngine, { nodes: 3 }, () => undefined, STOPPING);
  const lines = await run("status", "kafka", "--data", data);
  assert.deepEqual(lines.slice(0, 3), ["kafka 1: does not run", "kafka 2: does not run", "kafka 3: does not run"]);
  assert.match(lines[3]!, /^kafka [\d.]+: brokers 127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+$/);
  assert.deepEqual(await run("stop", "kafka", "--data", data, "--node", "2"), ["kafka 2: did not run"]);
  await assert.rejects(run("pause", "kafka", "--data", data), /kafka 1 does not run/);
  await assert.rejects(run("kill", "kafka", "--data", data, "--node", "4"), /no process 4: it has 1, 2, 3/);
  await assert.rejects(run("status", "ceph", "--data", data), /has a cluster of kafka/);
});

test("engines: a process that ends before it serves: its log is in the error", async () => {
  const cluster = await Cluster.make(join(folder, "ends"), kafkaEngine, { nodes: 1 }, () => undefined, STOPPING);
  await cluster.spawn("1", { command: process.execPath, args: ["-e", "console.error('no such disk'); process.exit(3)"] });
  await assert.rejects(
    cluster.untilReady("1", async () => false),
    /kafka 1 has ended:\nno such disk/,
  );
});

test("engines: a start is interrupted: rejected", async () => {
  const stopping = new AbortController();
  const cluster = await Cluster.make(join(folder, "interrupted"), kafkaEngine, { nodes: 1 }, () => undefined, stopping.signal);
  stopping.abort(new Error("stopped by SIGINT"));
  await assert.rejects(
    cluster.untilReady("1", async () => true),
    /stopped by SIGINT/,
  );
});

test("engines: ports: distinct, free; a taken one is named", async () => {
  const ports = await freePorts(6);
  assert.equal(new Set(ports).size, 6);
  const server = createServer().listen(ports[0], "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  await assert.rejects(checkFree(ports[0]!, "127.0.0.1"), new RegExp(`port ${ports[0]} of 127.0.0.1 is taken`));
  await new Promise((resolve) => server.close(resolve));
  await checkFree(ports[1]!, "127.0.0.1");
});

test("engines: layouts: every process has its ports or its address", () => {
  const layout = (engine: Engine, nodes: number): Layout => {
    const ports = Array.from({ length: engine.portCount(nodes) }, (_, at) => 1000 + at);
    return { engine: engine.name, version: "1", nodes, ports };
  };
  assert.deepEqual(brokersOf(layout(kafkaEngine, 3)), ["127.0.0.1:1000", "127.0.0.1:1001", "127.0.0.1:1002"]);
  assert.deepEqual(contactPointsOf(layout(cassandraEngine, 2)), ["127.0.0.1:1000", "127.0.0.2:1000"]);
  assert.deepEqual(cephEngine.processNames(layout(cephEngine, 1)), ["mon", "osd"]);
});

test("engines: artefacts: their folder names engine and version and is outside the repository", () => {
  const pom = join(folder, "pom.xml");
  writeFileSync(pom, "<kafka.version>4.3.1</kafka.version>");
  assert.equal(artefactFolder({ engine: "kafka", pom }, { XDG_CACHE_HOME: "/cache" }), "/cache/concord-engines/kafka-4.3.1");
  assert.throws(() => artefactFolder({ engine: "cassandra", pom }, {}), /no property cassandra\.version/);
  assert.ok(existsSync(join(import.meta.dirname, "kafka/pom.xml")));
});

test("engines: template: a name without a value: refused", () => {
  const file = join(folder, "template");
  writeFileSync(file, "port=${port}\nkept=$name\nlogs=${logs}\n");
  assert.equal(fillTemplate(file, { port: 7, logs: "/x" }), "port=7\nkept=$name\nlogs=/x\n");
  assert.throws(() => fillTemplate(file, { port: 7 }), /\$\{logs\}, which has no value/);
});
