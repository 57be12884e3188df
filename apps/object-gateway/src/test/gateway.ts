// A composed gateway on real sockets and a folder of its own, in this process.
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { S3Client } from "@aws-sdk/client-s3";
import { nodeHttpServer } from "@concord/adapter-http";
import { openLevel } from "@concord/adapter-level";
import { nodeClock, nodeDescriptors, nodeDigestThread, nodeDisk, nodeEnvironment } from "@concord/adapter-node-runtime";
import type { ObjectMetadata, Store } from "@concord/ports";
import { contract } from "@concord/protos-object";
import { bearer, grpcTransport } from "@concord/rpc";
import type { Disk, Environment, HttpServer, LogFields } from "@concord/runtime";
import { openStore } from "@concord/store";
import { createMetrics, type MetricsRegistry } from "@concord/telemetry";
import { S3Client as S3Client2024 } from "aws-sdk-client-s3-2024";
import {
  composeObjectGateway,
  OBJECT_GATEWAY_METRICS,
  objectGatewaySchema,
  type ObjectGatewayConfig,
  type ObjectGatewayOptions,
  type ObjectGatewayService,
} from "../index.ts";
import type { AccessKey } from "./signing.ts";

export const ANN: AccessKey = { accessKeyId: "ANNSKEY", secretAccessKey: "ann-has-a-secret", tenant: "ann" };
export const BOB: AccessKey = { accessKeyId: "BOBSKEY", secretAccessKey: "bob-has-another", tenant: "bob" };
export const OPERATOR = "operator-secret";

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: LogFields;
}

export interface GatewayOptions {
  readonly config?: Partial<ObjectGatewayConfig>;
  readonly http?: (server: HttpServer) => HttpServer;
  readonly environment?: Partial<Environment>;
  /** Instead of a store and a folder of its own. */
  readonly metadata?: ObjectMetadata;
  readonly dataDisk?: Disk;
  /** Of the events of every tenant's targets. */
  readonly openSink?: NonNullable<ObjectGatewayOptions["openSink"]>;
  /** Of the file of users. */
  readonly readFile?: (path: string) => string;
}

const ADMIN = contract.service("ObjectAdminService").methods;

/** Limit of one request, and of its 100 Continue, on a busy machine. */
const ANSWER_MS_MAX = 600_000;
/** Tries of removing a folder, 100 ms more apart each time. */
const RM_RETRIES_MAX = 10;

export class TestGateway {
  readonly folder: string;
  readonly lines: LogLine[] = [];
  metrics!: MetricsRegistry;
  service!: ObjectGatewayService;
  /** "127.0.0.1:40123", of the S3 endpoint. */
  address = "";
  adminAddress = "";
  #store: Store | undefined;
  readonly #options: GatewayOptions;
  readonly #clients: { destroy(): void }[] = [];

  constructor(folder: string, options: GatewayOptions) {
    this.folder = folder;
    this.#options = options;
  }

  static async start(options: GatewayOptions = {}): Promise<TestGateway> {
    const gateway = new TestGateway(await mkdtemp(join(tmpdir(), "concord-object-gateway-")), options);
    await gateway.start();
    return gateway;
  }

  async start(): Promise<void> {
    const config = objectGatewaySchema.parse({
      dataFolder: this.folder,
      accessKeys: [ANN, BOB],
      operatorToken: OPERATOR,
      drainGraceMs: 2000,
      ...this.#options.config,
    });
    const log = this.#log();
    this.metrics = createMetrics({ definitions: OBJECT_GATEWAY_METRICS });
    const transport = grpcTransport({ clock: nodeClock, log, metrics: this.metrics });
    const environment = { ...nodeEnvironment({ transport, log, metrics: this.metrics, env: {} }), ...this.#options.environment };
    const http = nodeHttpServer({ clock: nodeClock, log });
    this.service = composeObjectGateway(config, {
      environment,
      disk: nodeDisk(this.folder),
      digestThread: nodeDigestThread({ clock: nodeClock, log }),
      http: this.#options.http?.(http) ?? http,
      ...(this.#options.metadata === undefined ? {} : { metadata: this.#options.metadata }),
      ...(this.#options.readFile === undefined ? {} : { readFile: this.#options.readFile }),
      ...(this.#options.dataDisk === undefined ? {} : { dataDisk: this.#options.dataDisk }),
      ...(this.#options.openSink === undefined ? {} : { openSink: this.#options.openSink }),
      openKeyValue: async () => (this.#store = await this.#openStore(environment)),
    });
    const addresses = await this.service.start();
    this.address = addresses.httpAddress;
    this.adminAddress = addresses.address;
  }

  async #openStore(environment: Environment): Promise<Store> {
    const backing = await openLevel(join(this.folder, "rows"), nodeDescriptors());
    return openStore({ ...environment, disk: nodeDisk(this.folder), folder: "rows", backing });
  }

  async stop(): Promise<void> {
    for (const client of this.#clients.splice(0)) client.destroy();
    await this.service.stop();
  }

  async remove(): Promise<void> {
    await this.stop();
    // A life that ended after its grace may still write a file.
    await rm(this.folder, { recursive: true, maxRetries: RM_RETRIES_MAX });
  }

  client(key: AccessKey = ANN, more: object = {}): S3Client {
    return this.#kept(new S3Client({ ...this.#clientConfig(key), ...more }));
  }

  /** The last generation before checksums became the default. */
  client2024(key: AccessKey = ANN, more: object = {}): S3Client {
    // It waits for 100 Continue for so long, at least a second, and then never sends its body: a busy machine needs longer.
    const requestHandler = { requestTimeout: ANSWER_MS_MAX };
    return this.#kept(new S3Client2024({ ...this.#clientConfig(key), requestHandler, ...more }) as unknown as S3Client);
  }

  /** `token` "": none. */
  async admin<Response = Record<string, unknown>>(method: string, request: object = {}, token = OPERATOR): Promise<Response> {
    const channel = grpcTransport({ clock: nodeClock, log: this.#log(), metrics: this.metrics }).connect(this.adminAddress);
    try {
      return (await channel.unary(ADMIN[method]!, request, {
        timeoutMs: 10_000,
        metadata: bearer(token === "" ? undefined : token),
      })) as Response;
    } finally {
      channel.close();
    }
  }

  /**
   * All rows but those that a gateway writes by itself (its epoch, its worker id, the time of locks), and all files of blobs with their bytes:
   * of closed epochs no others, since recovery removes what is kept of those without blobs in the background.
   */
  async contents(): Promise<readonly string[]> {
    const entries = await this.#store!.range({ from: new Uint8Array(0), to: new Uint8Array(64).fill(0xff), limit: 1_000_000 });
    const rows = entries.filter(({ key }) => !isOfEpochs(key)).map(({ key, value }) => `${hex(key)} ${sha256(value)}`);
    return [...rows, ...(await filesOf(join(this.folder, "pieces")))];
  }

  /** Every request has ended. */
  async settled(): Promise<void> {
    await this.until(async () => (await this.admin<{ uploadsInFlight: number }>("GetStatus")).uploadsInFlight === 0);
  }

  /** Looks again every few milliseconds, for what happens behind a socket. Ends after minutes: a busy machine is given its time. */
  async until(holds: () => Promise<boolean>): Promise<void> {
    const endMs = performance.now() + 120_000;
    while (!(await holds())) {
      if (performance.now() > endMs) throw new Error("it never came");
      await setTimeout(5);
    }
  }

  #clientConfig({ accessKeyId, secretAccessKey }: AccessKey): object {
    const credentials = { accessKeyId, secretAccessKey };
    return { endpoint: `http://${this.address}`, region: "us-east-1", forcePathStyle: true, credentials, maxAttempts: 1 };
  }

  #kept<Client extends { destroy(): void }>(client: Client): Client {
    this.#clients.push(client);
    return client;
  }

  #log(): Environment["log"] {
    const write =
      (level: string) =>
      (message: string, fields: LogFields = {}) =>
        void this.lines.push({ level, message, fields });
    return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  }
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** In the system partition: epochs, instances, worker ids and the time of locks. */
function isOfEpochs(key: Uint8Array): boolean {
  return /^0100015[012]|^01000162/.test(hex(key));
}

/** The file of closed epochs, and in their folders all but segments and blobs. */
const OF_CLOSED_EPOCHS = /\/closed-below\/|\.closed\/(?!.*(?:seg-[0-9a-f]{8}|[0-9a-f]{8}-[0-9a-f]{12})$)/;

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const lasting = files.filter((file) => !OF_CLOSED_EPOCHS.test(file));
  return Promise.all(lasting.sort().map(async (file) => `${file} ${sha256(await readFile(file))}`));
}
