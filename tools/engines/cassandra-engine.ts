import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { classPath, versionOf, type Artefacts } from "./artefacts.ts";
import type { Cluster } from "./cluster.ts";
import type { Engine } from "./engine.ts";
import type { Layout } from "./layout.ts";
import { checkFree } from "./ports.ts";
import { JAVA, MAVEN } from "./requirements.ts";
import { fillTemplate } from "./template.ts";

const ARTEFACTS: Artefacts = { engine: "cassandra", pom: join(import.meta.dirname, "cassandra/pom.xml") };
const FOLDER = join(import.meta.dirname, "cassandra");
const HEAP_MIB = 512;
/** A node of minutes never earns back what the second compiler costs it. */
const FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1";
/** The first superuser is made after ten seconds otherwise. */
const SUPERUSER_AT_ONCE = "-Dcassandra.superuser_setup_delay_ms=0";
const PROBE_TIMEOUT_MS = 3_000;
/** The ring's tokens are the signed 64-bit numbers. */
const TOKENS = 2n ** 64n;
const CONSISTENCY_ONE = 1;
const CONSISTENCY_ALL = 5;
const ERROR = 0;
const STARTUP = 1;
const READY = 2;
const AUTHENTICATE = 3;
const QUERY = 7;
const RESULT = 8;
const AUTH_RESPONSE = 15;
const AUTH_SUCCESS = 16;
/** SASL PLAIN: name and password of the superuser that a new cluster has. */
const SUPERUSER = "\0cassandra\0cassandra";
const HEADER_BYTES = 9;
const LENGTH_AT = 5;
/** An error's body: code and length of the text before the text. */
const ERROR_TEXT_AT = 6;

/** Real nodes from Maven artefacts on 127.0.0.1, .2, .3: a datacenter each, or a rack each of one datacenter; three zones in both. */
export const cassandraEngine: Engine = {
  name: "cassandra",
  nodeCounts: [1, 2, 3],
  requirements: () => [JAVA, MAVEN],
  version: () => versionOf(ARTEFACTS),
  // CQL, storage and its TLS port, the same on every address.
  portCount: () => 3,
  processNames: ({ nodes }) => Array.from({ length: nodes }, (_, index) => String(index + 1)),
  start: startCassandra,
  connection: ({ layout }) =>
    `contact points ${contactPointsOf(layout).join(",")}, datacenters ${[...new Set(datacentersOf(layout))].join(",")}`,
};

export function contactPointsOf({ nodes, ports }: Layout): readonly string[] {
  return Array.from({ length: nodes }, (_, index) => `127.0.0.${index + 1}:${ports[0]}`);
}

/** Of each node. */
export function datacentersOf({ nodes, oneDatacenter }: Layout): readonly string[] {
  return Array.from({ length: nodes }, (_, index) => (oneDatacenter === true ? "dc1" : `dc${index + 1}`));
}

async function startCassandra(cluster: Cluster, names: readonly string[]): Promise<void> {
  const { layout } = cluster;
  const classes = classPath(ARTEFACTS, process.env, cluster.report);
  for (const name of names) {
    for (const port of layout.ports) await checkFree(port, `127.0.0.${name}`);
    configure(cluster, name);
  }
  for (const name of names) {
    await cluster.spawn(name, { command: "java", args: javaArguments(cluster, name, classes), environment: { MALLOC_ARENA_MAX: "4" } });
  }
  await Promise.all(names.map((name) => cluster.untilReady(name, () => serves(layout, name, names.length === layout.nodes))));
}

function configure(cluster: Cluster, name: string): void {
  const home = cluster.folderOf(name);
  const { nodes, ports } = cluster.layout;
  const [port, storagePort, sslPort] = ports;
  const index = BigInt(name) - 1n;
  mkdirSync(join(home, "conf"), { recursive: true });
  mkdirSync(join(home, "tmp"), { recursive: true });
  // Every node is a seed, so that all can start at once.
  const seeds = Array.from({ length: nodes }, (_, at) => `127.0.0.${at + 1}:${storagePort}`).join(",");
  const token = String((index * TOKENS) / 3n - TOKENS / 2n + 1n);
  const datacenter = datacentersOf(cluster.layout)[Number(index)]!;
  const rack = cluster.layout.oneDatacenter === true ? `r${name}` : "r1";
  const values = { home, token, address: `127.0.0.${name}`, port: port!, storagePort: storagePort!, sslPort: sslPort!, seeds };
  const access =
    cluster.layout.hasRoles === true
      ? { authenticator: "PasswordAuthenticator", authorizer: "CassandraAuthorizer" }
      : { authenticator: "AllowAllAuthenticator", authorizer: "AllowAllAuthorizer" };
  // One node has no other that a write could wait for: a time-out would say no more than that the machine is busy.
  const writeTimeout = cluster.layout.isShortLived === true && cluster.layout.nodes === 1 ? "10s" : "2s";
  writeFileSync(join(home, "conf/cassandra.yaml"), fillTemplate(join(FOLDER, "cassandra.yaml"), { ...values, ...access, writeTimeout }));
  writeFileSync(join(home, "conf/cassandra-rackdc.properties"), `dc=${datacenter}\nrack=${rack}\n`);
  copyFileSync(join(FOLDER, "logback.xml"), join(home, "conf/logback.xml"));
}

function javaArguments(cluster: Cluster, name: string, classes: string): readonly string[] {
  const home = cluster.folderOf(name);
  const flags = readFileSync(join(FOLDER, "jvm17.options"), "utf8")
    .split("\n")
    .filter((line) => line.startsWith("-"));
  return [
    ...flags,
    ...(cluster.layout.isShortLived === true ? [FIRST_COMPILER_ONLY] : []),
    ...(cluster.layout.hasRoles === true ? [SUPERUSER_AT_ONCE] : []),
    // A small heap at first: as root Cassandra locks all of it in memory.
    "-Xms128m",
    `-Xmx${HEAP_MIB}m`,
    `-XX:MaxDirectMemorySize=${HEAP_MIB}m`,
    `-Djava.io.tmpdir=${home}/tmp`,
    `-XX:HeapDumpPath=${home}`,
    `-XX:ErrorFile=${home}/hs_err.log`,
    `-Dconcord.home=${home}`,
    `-Dcassandra.storagedir=${home}`,
    `-Dcassandra.logdir=${home}`,
    `-Dlogback.configurationFile=file://${home}/conf/logback.xml`,
    `-Dcassandra.config=file://${home}/conf/cassandra.yaml`,
    `-Dcassandra-rackdc.properties=file://${home}/conf/cassandra-rackdc.properties`,
    "-Dcassandra-foreground=yes",
    "-cp",
    classes,
    "org.apache.cassandra.service.CassandraDaemon",
  ];
}

/** A read of a table with three replicas at ALL, through each of three nodes, says that every node sees every other one. */
async function serves({ nodes, ports }: Layout, name: string, isWhole: boolean): Promise<boolean> {
  const host = `127.0.0.${name}`;
  const everyOther = "SELECT view_name FROM system_distributed.view_build_status WHERE keyspace_name = 'x' AND view_name = 'x'";
  if (nodes === 3 && isWhole) await query(host, ports[0]!, everyOther, CONSISTENCY_ALL);
  else await query(host, ports[0]!, "SELECT key FROM system.local", CONSISTENCY_ONE);
  return true;
}

/** One query over a socket of its own (native protocol v4). Rejects with the server's message unless it answers with a result. */
function query(host: string, port: number, cql: string, consistency: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: PROBE_TIMEOUT_MS }, () => socket.write(frame(STARTUP, startupBody())));
    let seen = Buffer.alloc(0);
    socket.on("timeout", () => socket.destroy(new Error("no answer")));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed")));
    socket.on("data", (chunk: Buffer) => {
      seen = Buffer.concat([seen, chunk]);
      while (seen.length >= HEADER_BYTES && seen.length >= HEADER_BYTES + seen.readInt32BE(LENGTH_AT)) {
        const [opcode, end] = [seen[4], HEADER_BYTES + seen.readInt32BE(LENGTH_AT)];
        const error = seen.subarray(HEADER_BYTES + ERROR_TEXT_AT, end);
        seen = seen.subarray(end);
        if (opcode === AUTHENTICATE) socket.write(frame(AUTH_RESPONSE, authBody()));
        else if (opcode === READY || opcode === AUTH_SUCCESS) socket.write(frame(QUERY, queryBody(cql, consistency)));
        else if (opcode === RESULT) resolve();
        else reject(new Error(error.toString()));
        if (opcode === RESULT || opcode === ERROR) socket.destroy();
      }
    });
  });
}

function frame(opcode: number, body: Buffer): Buffer {
  const header = Buffer.from([4, 0, 0, 0, opcode, 0, 0, 0, 0]);
  header.writeInt32BE(body.length, LENGTH_AT);
  return Buffer.concat([header, body]);
}

function startupBody(): Buffer {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([0, value.length]), Buffer.from(value)]);
  return Buffer.concat([Buffer.from([0, 1]), text("CQL_VERSION"), text("3.0.0")]);
}

function authBody(): Buffer {
  const body = Buffer.alloc(4 + SUPERUSER.length);
  body.writeInt32BE(SUPERUSER.length, 0);
  body.write(SUPERUSER, 4);
  return body;
}

function queryBody(cql: string, consistency: number): Buffer {
  const body = Buffer.alloc(4 + cql.length + 3);
  body.writeInt32BE(cql.length, 0);
  body.write(cql, 4);
  body.writeInt16BE(consistency, 4 + cql.length);
  return body;
}
