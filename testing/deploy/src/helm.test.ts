// deploy/helm: rendered by Helm's own engine, checked by Kubernetes' schemas, each configuration by the program that gets it.
import assert from "node:assert/strict";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { configOf, hostOf, imageVariables, portOf, type ContainerConfig } from "./programs.ts";
import { RENDERING, renderChart, ROOT, validateDocuments, type KubernetesDocument } from "./tools.ts";

const KUBERNETES = ["1.32", "1.37"];
const IMAGE = imageVariables(readFileSync(join(ROOT, "docker/Dockerfile"), "utf8"));
const folder = mkdtempSync(join(tmpdir(), "concord-helm-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const ACCESS_KEY = { accessKeyId: "KEYID", secretAccessKey: "secret-of-key", tenant: "main" };
const SECRETS = { clientToken: "client", coordinatorToken: "coordinator", peerToken: "peer", operatorToken: "operator" };
const PASSWORDS = { cassandraPassword: "of-cassandra", kafkaPassword: "of-kafka" };
const RING = { secrets: { ...SECRETS, accessKeys: [ACCESS_KEY] }, serviceMonitor: { enabled: true, labels: { release: "prometheus" } } };
const cassandra = { contactPoints: ["cassandra.engines.svc:9042"], datacenter: "dc1", username: "concord" };
const kafka = { brokers: ["kafka.engines.svc:9092"], username: "concord" };
const ENGINES = {
  secrets: { ...SECRETS, ...PASSWORDS, accessKeys: [ACCESS_KEY] },
  tlsSecret: "concord-tls",
  image: { repository: "registry.example/concord", digest: `sha256:${"0".repeat(64)}`, pullSecrets: ["registry"] },
  storageProxy: { replicas: 5, backend: "cassandra", cassandra },
  objectGateway: { replicas: 3, ceph: { secret: "ceph-client", pool: "photos" } },
  dedupWorker: { log: "kafka", kafka, config: { windowIdsMax: 8_000_000 } },
};
const SHARED = { replicas: 3, log: "kafka", kafka: { ...kafka, workersTopic: "concord-workers" } };
const FORMS = {
  ring: { ...RING, objectGateway: { replicas: 2, sharedClaim: "objects" } },
  engines: ENGINES,
  "shared partitions": { ...ENGINES, dedupWorker: SHARED },
  one: { ...RING, storageProxy: { replicas: 1 }, txnCoordinator: { replicas: 1 } },
  "usual values": {
    ...RING,
    nameOverride: "concord",
    pods: {
      nodeSelector: { "node.example/pool": "storage" },
      tolerations: [{ key: "dedicated", operator: "Equal", value: "concord", effect: "NoSchedule" }],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }],
          },
        },
      },
      priorityClassName: "important",
      annotations: { "linkerd.io/inject": "disabled" },
      labels: { team: "platform" },
      extraEnv: [{ name: "CONCORD_CALLERS", value: "[]" }],
      extraVolumes: [{ name: "users", secret: { secretName: "users" } }],
      extraVolumeMounts: [{ name: "users", mountPath: "/etc/concord/users", readOnly: true }],
    },
    serviceAccount: { create: true, annotations: { "iam.example/role": "concord" } },
    service: { type: "LoadBalancer", annotations: { "lb.example/internal": "true" }, loadBalancerSourceRanges: ["10.0.0.0/8"] },
    ingress: { enabled: true, className: "nginx", hosts: ["s3.example.org"], tlsSecret: "s3-tls" },
    networkPolicy: { enabled: true, clients: [{ namespaceSelector: { matchLabels: { team: "apps" } } }] },
    prometheusRule: { enabled: true, labels: { release: "prometheus" }, runbooks: "https://docs.example.org/alerts/" },
    grafanaDashboard: { enabled: true },
    storageProxy: { volume: { size: "20G" }, pods: { tolerations: [{ key: "rows", operator: "Exists" }] } },
    dedupWorker: { config: { drainGraceMs: 60_000, lameDuckMs: 15_000 } },
  },
};

interface Pods {
  readonly kind: "StatefulSet" | "Job";
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly serviceName?: string;
    readonly replicas?: number;
    readonly selector?: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
    readonly template: { readonly metadata: { readonly labels: Readonly<Record<string, string>> }; readonly spec: PodSpec };
  };
}

interface Mount {
  readonly name: string;
  readonly mountPath: string;
  readonly subPath?: string;
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

interface PodSpec {
  readonly terminationGracePeriodSeconds?: number;
  readonly enableServiceLinks: boolean;
  readonly automountServiceAccountToken: boolean;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap?: { readonly name: string };
    readonly secret?: { readonly secretName: string };
  }[];
  readonly containers: readonly [
    {
      readonly args: readonly string[];
      readonly env: readonly Variable[];
      readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
      readonly securityContext: Readonly<Record<string, unknown>>;
      readonly volumeMounts: readonly Mount[];
      readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
      readonly startupProbe?: Probe;
      readonly livenessProbe?: Probe;
      readonly readinessProbe?: Probe;
    },
  ];
}

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly fieldRef?: { readonly fieldPath: string };
    readonly secretKeyRef?: { readonly name: string; readonly key: string };
  };
}

interface ServiceDocument extends KubernetesDocument {
  readonly spec: {
    readonly clusterIP?: string;
    readonly publishNotReadyAddresses?: boolean;
    readonly selector: Readonly<Record<string, string>>;
    readonly ports: readonly { readonly name: string; readonly port: number; readonly targetPort: string }[];
  };
}

interface SelectingDocument extends KubernetesDocument {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly endpoints?: readonly { readonly port: string }[];
  };
}

type Labels = Readonly<Record<string, string>>;
const isSelected = (labels: Labels, selector: Labels): boolean => Object.entries(selector).every(([key, value]) => labels[key] === value);

async function rendered(values: object): Promise<readonly KubernetesDocument[]> {
  const file = join(folder, "values.yaml");
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(values));
  return renderChart(file);
}

const podsOf = (documents: readonly KubernetesDocument[]): readonly Pods[] =>
  documents.filter(({ kind }) => kind === "StatefulSet" || kind === "Job") as unknown as readonly Pods[];

/** The variables of one pod, as the kubelet makes them. */
function variablesOf(documents: readonly KubernetesDocument[], { metadata, spec }: Pods, index: number): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {};
  for (const { name, value, valueFrom } of spec.template.spec.containers[0].env) {
    const field = valueFrom?.fieldRef?.fieldPath;
    const secret = valueFrom?.secretKeyRef;
    if (field === "metadata.name") variables[name] = `${metadata.name}-${index}`;
    else if (field === "metadata.labels['apps.kubernetes.io/pod-index']") variables[name] = String(index);
    else if (secret !== undefined) {
      const kept = documents.find((document) => document.kind === "Secret" && document.metadata.name === secret.name);
      variables[name] = kept?.stringData?.[secret.key] ?? assert.fail(`${name}: no Secret ${secret.name} has ${secret.key}`);
    } else variables[name] = (value ?? assert.fail(name)).replace(/\$\((\w+)\)/g, (_, other: string) => variables[other]!);
  }
  return variables;
}

interface Pod {
  readonly name: string;
  readonly pods: Pods;
  readonly program: string;
  readonly config: ContainerConfig;
}

/** Each pod with the configuration that its program starts with. */
function startedPods(documents: readonly KubernetesDocument[]): readonly Pod[] {
  return podsOf(documents).flatMap((pods) => {
    const [container] = pods.spec.template.spec.containers;
    const mount = container.volumeMounts.find(({ subPath }) => subPath !== undefined)!;
    const volume = pods.spec.template.spec.volumes.find(({ name }) => name === mount.name)!;
    const map = documents.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === volume.configMap?.name)!;
    const files = { [mount.mountPath]: map.data![mount.subPath!]! };
    return Array.from({ length: pods.spec.replicas ?? 1 }, (_, index) => {
      const { POD_INDEX: _index, ...env } = { ...IMAGE, ...variablesOf(documents, pods, index) } as Record<string, string>;
      return { name: `${pods.metadata.name}-${index}`, pods, ...configOf({ args: container.args, env, files }) };
    });
  });
}

for (const [form, values] of Object.entries(FORMS)) {
  test(`chart, ${form}: Kubernetes' own schemas accept every document`, RENDERING, async () => {
    const documents = await rendered(values);
    const known = documents.filter(({ kind }) => kind !== "ServiceMonitor" && kind !== "PrometheusRule");
    assert.deepEqual(await validateDocuments(known, KUBERNETES), []);
    const names = documents.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.equal(new Set(names).size, names.length);
  });

  test(`chart, ${form}: every program accepts what each of its pods gets, and calls pods where they listen`, RENDERING, async () => {
    const documents = await rendered(values);
    const pods = startedPods(documents);
    const serving = pods.filter(({ pods: { kind } }) => kind === "StatefulSet");
    assert.deepEqual(new Set(serving.map(({ program }) => program)).size, 4);
    const addresses = serving.map(({ name, pods: { spec } }) => `${name}.${spec.serviceName}.concord.svc.cluster.local:7100`);
    for (const { name, config, program } of serving) {
      assert.equal(config.nodeName, name);
      assert.equal(config.clientToken, "client");
      const members = [config.ring, config.coordinators, config.storageProxies, config.workers].flatMap((list) => list ?? []);
      for (const member of members) {
        const address = typeof member === "string" ? member : member.address;
        assert.ok(addresses.includes(address), `${name} calls ${address}`);
        if (typeof member === "string") continue;
        assert.equal(hostOf(address).split(".")[0], member.name);
        if (member.name === name && program !== "dedup-worker") assert.equal(member.datacenter, config.datacenter);
      }
      if (program === "dedup-worker") assert.equal(`${config.snowflakeWorkerId}`, name.split("-").at(-1));
    }
  });

  test(
    `chart, ${form}: ports, probes, volumes and Services fit the programs; a pod ends within its time and writes only volumes`,
    RENDERING,
    async () => {
      const documents = await rendered(values);
      const services = documents.filter(({ kind }) => kind === "Service") as readonly ServiceDocument[];
      for (const { name, pods, config } of startedPods(documents).filter(({ pods: { kind } }) => kind === "StatefulSet")) {
        const pod = pods.spec.template.spec;
        const [container] = pod.containers;
        const ports = new Map(container.ports!.map((port) => [port.name, port.containerPort]));
        assert.equal(ports.get("grpc"), portOf(config.listenAddress));
        assert.equal(ports.get("admin"), portOf(config.adminAddress));
        assert.equal(ports.get("s3"), config.httpAddress === undefined ? undefined : portOf(config.httpAddress));
        const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe].map((probe) => probe!.httpGet);
        assert.deepEqual(
          probes.map(({ path, port }) => [path, port]),
          [
            ["/healthz", "admin"],
            ["/healthz", "admin"],
            ["/readyz", "admin"],
          ],
        );
        // On a busy machine a drain takes up to four times its time; what a stop may take after it: libs/rpc/src/run-main.ts.
        const stopMs = config.lameDuckMs + 4 * config.drainGraceMs + 4_000;
        assert.ok(pod.terminationGracePeriodSeconds! * 1000 > 1000 * container.lifecycle!.preStop.sleep.seconds + stopMs);
        assert.deepEqual([pod.enableServiceLinks, pod.automountServiceAccountToken], [false, false]);
        assert.equal(pod.securityContext["runAsNonRoot"], true);
        assert.equal(container.securityContext["readOnlyRootFilesystem"], true);
        const claims = (pods.spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name);
        const keeps = config.backend === "cassandra" ? undefined : config.dataFolder;
        const mount = container.volumeMounts.find(({ mountPath }) => keeps?.startsWith(`${mountPath}/`) === true);
        assert.equal(mount === undefined ? undefined : claims[0], keeps === undefined ? undefined : mount!.name, `${name}: ${keeps}`);
        if (config.dataStoreFolder !== undefined)
          assert.ok(container.volumeMounts.some((each) => each.mountPath === config.dataStoreFolder));
        assert.equal(
          pod.volumes.some(({ secret }) => secret?.secretName === "ceph-client"),
          config.objects === "rados",
        );
        if (config.objects === "rados") {
          assert.equal(config.cephPool, "photos");
          assert.ok(container.volumeMounts.some(({ mountPath }) => config.cephConf!.startsWith(`${mountPath}/`)));
        }
        if (config.tlsCertificateFile !== undefined)
          assert.ok(container.volumeMounts.some(({ mountPath }) => config.tlsCertificateFile!.startsWith(`${mountPath}/`)));
        for (const { mountPath, name: volume } of container.volumeMounts)
          assert.ok(claims.includes(volume) || pod.volumes.some((each) => each.name === volume), mountPath);
        const { labels } = pods.spec.template.metadata;
        const own = services.filter(({ spec }) => isSelected(labels, spec.selector));
        assert.deepEqual(
          new Set(own.map(({ spec }) => `${spec.clusterIP ?? "an address"}, ${spec.publishNotReadyAddresses === true ? "all" : "ready"}`)),
          new Set(["an address, ready", "None, all"]),
          name,
        );
        for (const { spec } of own) for (const port of spec.ports) assert.equal(ports.get(port.targetPort), port.port);
        assert.ok(own.some(({ metadata }) => metadata.name === pods.spec.serviceName));
        const budgets = documents.filter(({ kind }) => kind === "PodDisruptionBudget") as readonly SelectingDocument[];
        assert.equal(budgets.filter((budget) => isSelected(labels, budget.spec.selector.matchLabels)).length, 1);
      }
    },
  );
}

test(
  "chart: usual values: every pod has what is for all of them, then its own; an Ingress and a NetworkPolicy name ports there are",
  RENDERING,
  async () => {
    const documents = await rendered(FORMS["usual values"]);
    for (const { metadata, spec } of podsOf(documents)) {
      const pod = spec.template.spec as PodSpec & Readonly<Record<string, unknown>>;
      const labels = spec.template.metadata.labels;
      assert.deepEqual([labels["team"], pod["priorityClassName"], pod["serviceAccountName"]], ["platform", "important", "concord"]);
      const own = metadata.name.endsWith("storage-proxy") ? ["dedicated", "rows"] : ["dedicated"];
      assert.deepEqual(
        (pod["tolerations"] as readonly { readonly key: string }[]).map(({ key }) => key),
        own,
      );
      assert.ok(pod.containers[0].volumeMounts.some(({ mountPath }) => mountPath === "/etc/concord/users"));
    }
    const rules = (kind: string): string => JSON.stringify(documents.find((document) => document.kind === kind));
    assert.match(rules("Ingress"), /"name":"concord-object-gateway","port":\{"name":"s3"\}/);
    assert.match(rules("NetworkPolicy"), /"team":"apps".*"port":7100.*"port":7120.*"port":7110/);
    assert.ok(rules("ServiceAccount").includes("iam.example/role"));
  },
);

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly runbook_url: string };
}

test("chart: every alert asks for metrics that the programs have", RENDERING, async () => {
  const documents = await rendered(FORMS["usual values"]);
  const { groups } = documents.find(({ kind }) => kind === "PrometheusRule")!["spec"] as {
    readonly groups: readonly { readonly rules: readonly Rule[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  assert.ok(rules.length > 10);
  const files = globSync("{apps,libs}/*/src/**/metrics.ts", { cwd: ROOT });
  const sources = files.map((path) => readFileSync(join(ROOT, path), "utf8")).join("\n");
  for (const { alert, expr } of rules)
    for (const [metric] of expr.matchAll(/\b[a-z]+_[a-z_]+\b/g)) assert.ok(sources.includes(`"${metric}"`), `${alert}: ${metric}`);
  for (const { alert, annotations } of rules) {
    assert.equal(annotations.runbook_url, `https://docs.example.org/alerts/${alert}.md`);
    assert.ok(existsSync(join(ROOT, `docs/alerts/${alert}.md`)), alert);
  }
});

test("chart: the dashboard is a ConfigMap that Grafana's sidecar finds, the same file that others import", RENDERING, async () => {
  const documents = await rendered(FORMS["usual values"]);
  const map = documents.find(({ metadata }) => metadata.name === "concord-dashboard")!;
  assert.equal(map.metadata.labels!["grafana_dashboard"], "1");
  assert.equal(map.data!["concord.json"], readFileSync(join(ROOT, "deploy/helm/concord/files/dashboard.json"), "utf8"));
});

test("chart: the ServiceMonitor scrapes the admin port of each service once", RENDERING, async () => {
  const documents = await rendered(RING);
  const monitor = documents.find(({ kind }) => kind === "ServiceMonitor") as SelectingDocument;
  const services = documents.filter(({ kind }) => kind === "Service") as readonly ServiceDocument[];
  const scraped = services.filter(({ metadata }) => isSelected(metadata.labels!, monitor.spec.selector.matchLabels));
  assert.deepEqual(scraped.map(({ metadata }) => metadata.name).toSorted(), [
    "concord-dedup-worker-nodes",
    "concord-object-gateway-nodes",
    "concord-storage-proxy-nodes",
    "concord-txn-coordinator-nodes",
  ]);
  const { port: wanted } = monitor.spec.endpoints![0]!;
  for (const each of scraped) assert.ok(each.spec.ports.some(({ name }) => name === wanted));
});

test(
  "[TX32] chart: a coordinator beyond those of the first start: all are configured with the first ones, the new pod waits to be added",
  RENDERING,
  async () => {
    const documents = await rendered({ ...RING, txnCoordinator: { replicas: 4, founders: 3 } });
    const coordinators = startedPods(documents).filter(({ program }) => program === "txn-coordinator");
    const founders = coordinators.slice(0, 3).map(({ name }) => name);
    assert.equal(coordinators.length, 4);
    for (const { config } of coordinators)
      assert.deepEqual(
        config.coordinators!.map((node) => (typeof node === "string" ? node : node.name)),
        founders,
      );
  },
);

test(
  "[TX32] chart: dedup-workers on Kafka: each knows the others, by token, UDP and topic; one behind the founders waits to be added",
  RENDERING,
  async () => {
    for (const [dedupWorker, known] of [
      [SHARED, 3],
      [{ ...SHARED, replicas: 4, founders: 3 }, 3],
    ] as const) {
      const documents = await rendered({ ...ENGINES, dedupWorker });
      const workers = startedPods(documents).filter(({ program }) => program === "dedup-worker");
      assert.equal(workers.length, dedupWorker.replicas);
      const names = workers.slice(0, known).map(({ name }) => name);
      for (const { config, pods } of workers) {
        assert.deepEqual(
          config.workers!.map((worker) => worker.name),
          names,
        );
        assert.deepEqual([config.workerToken, config.kafkaWorkersTopic], ["peer", "concord-workers"]);
        assert.ok(pods.spec.template.spec.containers[0].ports!.some(({ name }) => name === "heartbeats"));
      }
      assert.equal(new Set(workers.map(({ config }) => config.snowflakeWorkerId)).size, workers.length);
    }
  },
);

test("chart: one dedup-worker: it knows no other, and has neither their token nor their port", RENDERING, async () => {
  const [worker] = startedPods(await rendered(ENGINES)).filter(({ program }) => program === "dedup-worker");
  assert.deepEqual([worker!.config.workers, worker!.config.workerToken], [[], undefined]);
  assert.ok(!worker!.pods.spec.template.spec.containers[0].ports!.some(({ name }) => name === "heartbeats"));
});

test("chart: a schema job on Cassandra, none on a ring; with an existing Secret no Secret", RENDERING, async () => {
  const kinds = async (values: object): Promise<readonly string[]> => (await rendered(values)).map(({ kind }) => kind);
  assert.ok((await kinds(ENGINES)).includes("Job"));
  assert.ok(!(await kinds(RING)).includes("Job"));
  assert.ok(!(await kinds({ existingSecret: "mine" })).includes("Secret"));
});

const REFUSED: readonly (readonly [what: string, values: object, says: RegExp])[] = [
  ["no secrets", {}, /clientToken: give one/],
  ["no access keys", { secrets: SECRETS }, /accessKeys: give one/],
  ["two nodes of a ring", { ...RING, storageProxy: { replicas: 2 } }, /replicas/],
  ["a value that does not exist", { ...RING, storageProxi: {} }, /storageProxi/],
  ["gateways that share nothing", { ...RING, objectGateway: { replicas: 2 } }, /sharedClaim/],
  ["objects in two places", { ...RING, objectGateway: { sharedClaim: "objects", ceph: { secret: "ceph" } } }, /not in both/],
  ["Cassandra without nodes", { ...RING, storageProxy: { backend: "cassandra" } }, /contactPoints/],
  ["Kafka without brokers", { ...RING, dedupWorker: { log: "kafka" } }, /brokers/],
  ["several dedup-workers with logs of their own", { ...RING, dedupWorker: { replicas: 2 } }, /share a log/],
  ["a dedup-worker that no list can take", { ...ENGINES, dedupWorker: { replicas: 3, founders: 2, log: "kafka", kafka } }, /workersTopic/],
  ["a dedup-worker that founds alone", { ...ENGINES, dedupWorker: { ...SHARED, founders: 1 } }, /at least two/],
  ["a user without a password", { ...ENGINES, secrets: RING.secrets }, /Password goes with/],
];
for (const [what, values, says] of REFUSED) {
  test(`chart: ${what}: refused, and said why`, RENDERING, () => assert.rejects(rendered(values), says));
}
