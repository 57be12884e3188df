import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { classPath, versionOf, type Artefacts } from "./artefacts.ts";
import type { Cluster } from "./cluster.ts";
import type { Engine } from "./engine.ts";
import type { Layout } from "./layout.ts";
import { writeKafkaCommands } from "./kafka-commands.ts";
import { JAVA, MAVEN } from "./requirements.ts";
import { checkFree } from "./ports.ts";
import { fillTemplate } from "./template.ts";

const ARTEFACTS: Artefacts = { engine: "kafka", pom: join(import.meta.dirname, "kafka/pom.xml") };
const TEMPLATE = join(import.meta.dirname, "kafka/server.properties");
const HEAP_MIB = 384;
const PROBE_TIMEOUT_MS = 2_000;
/** Quick to start and small; a benchmark of a broker wants the JVM's own choice. */
const JAVA_FLAGS = [
  "-Xms64m",
  `-Xmx${HEAP_MIB}m`,
  "-XX:+UseSerialGC",
  "-XX:TieredStopAtLevel=1",
  "-Xss512k",
  "-Djava.awt.headless=true",
  "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
  "-Dorg.slf4j.simpleLogger.showDateTime=true",
];
/** Metadata v1 for no topics: the answer begins with length, correlation id and the number of brokers. */
const METADATA_REQUEST = Buffer.from("0000000e0003000100000001ffff00000000", "hex");
const BROKER_COUNT_AT = 8;

/**
 * Real brokers from Maven artefacts, each broker and controller in one process (KRaft). Clients of the connection may do anything; each broker has another port,
 * whose clients log in (SCRAM-SHA-512) and may do what ACLs allow them.
 */
export const kafkaEngine: Engine = {
  name: "kafka",
  nodeCounts: [1, 3],
  requirements: () => [JAVA, MAVEN],
  version: () => versionOf(ARTEFACTS),
  portCount: (nodes) => nodes * 3,
  processNames: ({ nodes }) => Array.from({ length: nodes }, (_, index) => String(index + 1)),
  start: startKafka,
  connection: ({ layout }) => `brokers ${brokersOf(layout).join(",")}`,
};

export function brokersOf({ nodes, ports }: Layout): readonly string[] {
  return ports.slice(0, nodes).map((port) => `127.0.0.1:${port}`);
}

async function startKafka(cluster: Cluster, names: readonly string[]): Promise<void> {
  const { layout } = cluster;
  const classes = classPath(ARTEFACTS, process.env, cluster.report);
  writeKafkaCommands(cluster.folder, classes, cluster.report);
  configure(cluster, classes);
  for (const name of names) {
    for (const port of portsOf(layout, name)) await checkFree(port, "127.0.0.1");
  }
  for (const name of names) {
    const args = [...JAVA_FLAGS, "-cp", classes, "kafka.Kafka", join(cluster.folderOf(name), "server.properties")];
    await cluster.spawn(name, { command: "java", args });
  }
  // Of a cluster that starts, each broker lists all; of one broker that comes back alone no more can be asked than that it serves.
  const listed = names.length === layout.nodes ? layout.nodes : 1;
  await Promise.all(names.map((name) => cluster.untilReady(name, async () => (await listedBrokers(portsOf(layout, name)[0])) >= listed)));
}

/** Ports of clients, of the controller, and of clients that log in; a cluster of before has no last one. */
function portsOf({ nodes, ports }: Layout, name: string): readonly [number, number, ...number[]] {
  const index = Number(name) - 1;
  return [ports[index]!, ports[nodes + index]!, ...ports.slice(2 * nodes + index, 2 * nodes + index + 1)];
}

/** Of a new cluster: properties of every node, and folders that share one cluster id. */
function configure(cluster: Cluster, classes: string): void {
  const { layout, folder } = cluster;
  const formatted = join(folder, "formatted");
  if (existsSync(formatted)) return;
  const names = kafkaEngine.processNames(layout);
  const replicas = Math.min(layout.nodes, 3);
  for (const name of names) {
    const [port, controllerPort, loginPort] = portsOf(layout, name);
    mkdirSync(cluster.folderOf(name), { recursive: true });
    const voters = names.map((each) => `${each}@127.0.0.1:${portsOf(layout, each)[1]}`).join(",");
    const minInsync = replicas === 3 ? 2 : 1;
    const values = {
      node: name,
      voters,
      port,
      controllerPort,
      loginPort: loginPort!,
      replicas,
      minInsync,
      logs: join(cluster.folderOf(name), "logs"),
    };
    writeFileSync(join(cluster.folderOf(name), "server.properties"), fillTemplate(TEMPLATE, values));
  }
  format(cluster, names, classes);
  writeFileSync(formatted, "");
}

/** The storage tool is a JVM of its own, so it runs once: the other nodes get a copy that differs in their ids. */
function format(cluster: Cluster, [first, ...others]: readonly string[], classes: string): void {
  const properties = join(cluster.folderOf(first!), "server.properties");
  const tool = ["-Xmx128m", ...JAVA_FLAGS.slice(2), "-cp", classes, "kafka.tools.StorageTool", "format", "-t", newId(), "-c", properties];
  const { status, stdout, stderr } = spawnSync("java", tool, { encoding: "utf8" });
  if (status !== 0) throw new Error(`the storage tool failed with exit code ${status}:\n${stdout}${stderr}`);
  for (const name of others) {
    cpSync(join(cluster.folderOf(first!), "logs"), join(cluster.folderOf(name), "logs"), { recursive: true });
    const meta = join(cluster.folderOf(name), "logs/meta.properties");
    const text = readFileSync(meta, "utf8").replace(/^node\.id=.*$/m, `node.id=${name}`);
    writeFileSync(meta, text.replace(/^directory\.id=.*$/m, `directory.id=${newId()}`));
  }
}

/** A UUID as Kafka writes it; one that begins with "-" would be read as an option. */
function newId(): string {
  return randomBytes(16).toString("base64url").replace(/^-/, "A");
}

/** How many brokers the broker lists: it is registered and serves once it lists itself. */
function listedBrokers(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, timeout: PROBE_TIMEOUT_MS }, () => socket.write(METADATA_REQUEST));
    let answer = Buffer.alloc(0);
    socket.on("timeout", () => socket.destroy(new Error("no answer")));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed")));
    socket.on("data", (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      if (answer.length < BROKER_COUNT_AT + 4) return;
      resolve(answer.readInt32BE(BROKER_COUNT_AT));
      socket.destroy();
    });
  });
}
