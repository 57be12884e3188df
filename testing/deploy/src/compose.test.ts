// docker/: read by compose's own library, each variable by the program that gets it, each address by the container that listens there.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { configOf, hostOf, imageVariables, portOf, type ContainerConfig, type Member } from "./programs.ts";
import { RENDERING, renderCompose, ROOT, type ComposeProject, type ComposeService } from "./tools.ts";

const SECRETS = {
  CLIENT_TOKEN: "client",
  COORDINATOR_TOKEN: "coordinator",
  PEER_TOKEN: "peer",
  OPERATOR_TOKEN: "operator",
  S3_ACCESS_KEY_ID: "KEYID",
  S3_SECRET_ACCESS_KEY: "secret-of-key",
};
const FILES = readdirSync(join(ROOT, "docker")).filter((name) => name.endsWith(".yaml"));
const IMAGE = imageVariables(readFileSync(join(ROOT, "docker/Dockerfile"), "utf8"));
/** Ports of engines and where their containers listen. */
const ENGINES: readonly (readonly [image: string, port: number])[] = [
  ["cassandra:", 9042],
  ["apache/kafka:", 9092],
];

interface Node {
  readonly name: string;
  readonly service: ComposeService;
  readonly program: string;
  readonly config: ContainerConfig;
}

function nodesOf(project: ComposeProject): readonly Node[] {
  return Object.entries(project.services)
    .filter(([, { image }]) => image === "concord")
    .map(([name, service]) => {
      const env = { ...IMAGE, ...Object.fromEntries(Object.entries(service.environment ?? {}).map(([key, value]) => [key, value ?? ""])) };
      return { name, service, ...configOf({ args: service.command ?? [], env }) };
    });
}

const isServing = ({ service }: Node): boolean => service.healthcheck?.disable !== true;

/** Every address that a node calls others by. */
function calledBy({ nodes = [], ring = [], coordinators = [], storageProxies = [], ...config }: ContainerConfig): readonly string[] {
  const members = [...nodes, ...ring, ...coordinators, ...storageProxies].map((member) =>
    typeof member === "string" ? member : member.address,
  );
  return [...members, ...(config.log === "kafka" ? (config.kafkaBrokers ?? []) : []), ...(config.cassandraContactPoints ?? [])];
}

function listens(project: ComposeProject, nodes: readonly Node[], address: string): boolean {
  const node = nodes.find(({ name }) => name === hostOf(address));
  if (node !== undefined) return portOf(node.config.listenAddress) === portOf(address);
  const engine = project.services[hostOf(address)];
  return ENGINES.some(([image, port]) => engine?.image.startsWith(image) === true && port === portOf(address));
}

test("the compose files are one process, three nodes, and services on engines", () => {
  assert.deepEqual(FILES.toSorted(), ["compose-engines.yaml", "compose-one.yaml", "compose-three.yaml"]);
});

test(
  "compose-engines.yaml: Ceph: data of objects is in the pool that its containers make; its keys are on volumes of those who use them",
  RENDERING,
  async () => {
    const project = await renderCompose("compose-engines.yaml", SECRETS);
    const ceph = Object.entries(project.services).filter(([name]) => name.startsWith("ceph-"));
    const mountsOf = ({ volumes = [] }: ComposeService) => new Map(volumes.map(({ source, target }) => [target, source]));
    // As compose.ceph.ts runs them.
    const commands = Object.fromEntries(ceph.map(([name, { command }]) => [name, command?.join(" ")]));
    const osds = { "ceph-osd-0": "osd 0", "ceph-osd-1": "osd 1", "ceph-osd-2": "osd 2" };
    assert.deepEqual(commands, { "ceph-mgr": "mgr", "ceph-mon": "mon", ...osds, "ceph-pool": "pool" });
    for (const [name, service] of ceph) {
      const { image, entrypoint, environment, networks } = service;
      assert.match(image, /^quay\.io\/ceph\/ceph:v\d+\.\d+\.\d+$/);
      assert.deepEqual(entrypoint, ["/bin/bash", "/ceph.sh"]);
      assert.equal(environment?.["CEPH_MONITOR_ADDRESS"], `${project.services["ceph-mon"]!.networks!["ceph"]!.ipv4_address}:3300`);
      assert.deepEqual(Object.keys(networks!), ["ceph"]);
      const mounts = mountsOf(service);
      assert.equal(mounts.get("/ceph.sh"), join(ROOT, "docker/ceph.sh"));
      assert.equal(mounts.get("/etc/ceph"), "ceph-admin");
      assert.equal(mounts.get(name === "ceph-pool" ? "/client" : "/var/lib/ceph/concord"), name === "ceph-pool" ? "ceph-client" : name);
      const health = ["CMD", "bash", "/ceph.sh", "health", service.command!.join(".")];
      if (service.healthcheck !== undefined) assert.deepEqual(service.healthcheck.test, health, name);
    }
    for (const { name, service, config } of nodesOf(project).filter(({ program }) => program === "object-gateway")) {
      assert.deepEqual(
        [config.objects, config.cephConf, config.cephUser, config.cephPool],
        ["rados", "/etc/ceph/ceph.conf", "concord", "concord"],
      );
      const keys = service.volumes!.find(({ target }) => target === "/etc/ceph")!;
      assert.deepEqual([keys.source, keys.read_only], ["ceph-client", true], name);
      assert.equal(service.depends_on?.["ceph-pool"]?.condition, "service_completed_successfully");
      assert.ok("ceph" in service.networks!);
    }
    const seeing = Object.entries(project.services).filter(([, service]) => [...mountsOf(service).values()].includes("ceph-admin"));
    assert.deepEqual(seeing.map(([name]) => name).toSorted(), ceph.map(([name]) => name).toSorted());
  },
);

for (const file of FILES) {
  test(`${file}: every variable is a key of the program that gets it, and a secret that is missing is named`, RENDERING, async () => {
    const nodes = nodesOf(await renderCompose(file, SECRETS));
    assert.ok(nodes.length > 0);
    for (const { config } of nodes) assert.equal(config.clientToken, SECRETS.CLIENT_TOKEN);
    const { CLIENT_TOKEN: _left, ...others } = SECRETS;
    await assert.rejects(renderCompose(file, { ...others, CLIENT_TOKEN: "" }), /CLIENT_TOKEN/);
  });

  test(`${file}: every address that a node calls is one where a container listens`, RENDERING, async () => {
    const project = await renderCompose(file, SECRETS);
    const nodes = nodesOf(project);
    for (const { name, config } of nodes) {
      for (const address of calledBy(config)) {
        const isOwn = hostOf(address) === "127.0.0.1" && portOf(address) === portOf(config.listenAddress);
        assert.ok(isOwn || listens(project, nodes, address), `${name} calls ${address}`);
      }
      for (const list of [config.nodes, config.ring, config.storageProxies, config.coordinators]) {
        const members = (list ?? []).filter((member): member is Member => typeof member !== "string");
        const self = members.find((member) => member.name === config.nodeName);
        if (self !== undefined) assert.equal(self.datacenter, config.datacenter ?? self.datacenter, name);
        assert.equal(new Set(members.map(({ datacenter }) => datacenter)).size, members.length, "each in a datacenter of its own");
      }
    }
    const names = nodes.filter(isServing).map(({ config }) => config.nodeName);
    assert.equal(new Set(names).size, names.length);
  });

  test(
    `${file}: ports lead to where programs listen, on loopback; the admin port of each is reachable and asked for health`,
    RENDERING,
    async () => {
      const published = new Set<string>();
      for (const { name, service, config } of nodesOf(await renderCompose(file, SECRETS)).filter(isServing)) {
        const listening = [config.listenAddress, config.adminAddress, ...(config.httpAddress === undefined ? [] : [config.httpAddress])];
        for (const address of listening) assert.equal(hostOf(address), "0.0.0.0", `${name} listens for other containers`);
        for (const port of service.ports ?? []) {
          assert.ok(listening.map(portOf).includes(port.target), `${name}: nothing listens on ${port.target}`);
          assert.equal(port.host_ip, "127.0.0.1");
          assert.ok(!published.has(port.published), `${port.published} is published twice`);
          published.add(port.published);
        }
        assert.ok(
          service.ports?.some(({ target }) => target === portOf(config.adminAddress)),
          `${name}: its admin port is published`,
        );
        assert.deepEqual(service.healthcheck?.test, ["CMD", "node", "healthcheck.js", "/readyz"], name);
        // healthcheck.js reads the address from the environment.
        assert.equal(service.environment?.["CONCORD_ADMIN_ADDRESS"], config.adminAddress, name);
      }
    },
  );

  test(
    `${file}: nothing but volumes is written, by a user that is not root; what is kept is on a volume of its own`,
    RENDERING,
    async () => {
      const project = await renderCompose(file, SECRETS);
      const folders = new Set<string>();
      for (const { name, service, config } of nodesOf(project).filter(isServing)) {
        assert.deepEqual([service.read_only, service.cap_drop, service.user ?? "the image's"], [true, ["ALL"], "the image's"], name);
        const mounts = new Map((service.volumes ?? []).map(({ source, target }) => [target, source]));
        if (config.dataFolder !== undefined && config.backend !== "cassandra") {
          const volume = mounts.get(config.dataFolder);
          assert.ok(volume !== undefined && volume in project.volumes, `${name}: ${config.dataFolder} is a volume`);
          assert.ok(!folders.has(volume), `${name}: ${volume} has another owner`);
          folders.add(volume);
        }
        if (config.dataStoreFolder !== undefined) assert.ok(mounts.has(config.dataStoreFolder), `${name}: ${config.dataStoreFolder}`);
      }
    },
  );
}

test(
  "compose-engines.yaml: the topics are made as the worker demands them; versions of the engines are those of the tests",
  RENDERING,
  async () => {
    const project = await renderCompose("compose-engines.yaml", SECRETS);
    const topics = project.services["kafka-topics"]!.command!.join("\n");
    const worker = nodesOf(project).find(({ program }) => program === "dedup-worker")!.config;
    assert.match(topics, new RegExp(`--partitions ${worker.partitions} `));
    const made = new Map([...topics.matchAll(/^make (\S+) (\d+)$/gm)].map(([, name, bytes]) => [name, Number(bytes)]));
    const [input, ...larger] = [worker.kafkaInputTopic, worker.kafkaOutputTopic, worker.kafkaDeadLettersTopic].map((name) =>
      made.get(name!),
    );
    for (const bytes of larger) assert.ok(bytes! >= input! + 1_024, "room for the pipeline's headers");
    for (const [engine, image] of [
      ["cassandra", "cassandra-1"],
      ["kafka", "kafka-1"],
    ]) {
      const pom = readFileSync(join(ROOT, `tools/engines/${engine}/pom.xml`), "utf8");
      const [, version] = new RegExp(`<${engine}\\.version>([^<]+)<`).exec(pom)!;
      assert.equal(project.services[image!]!.image.split(":")[1], version);
    }
    const racks = ["cassandra-1", "cassandra-2", "cassandra-3"].map((name) => project.services[name]!.environment!);
    assert.deepEqual(
      racks.map((env) => [env["CASSANDRA_DC"], env["CASSANDRA_RACK"]]),
      [
        ["dc1", "rack1"],
        ["dc1", "rack2"],
        ["dc1", "rack3"],
      ],
    );
    for (const setting of ["paxos_variant=v2", "commitlog_sync=group", "commitlog_sync_period=0ms"])
      assert.ok(
        racks.every((env) => env["JVM_EXTRA_OPTS"]!.includes(`-Dcassandra.settings.${setting}`)),
        setting,
      );
  },
);
