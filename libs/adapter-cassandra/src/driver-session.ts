// The only file that knows cassandra-driver.
import { Client, policies, types, type Host } from "cassandra-driver";
import { assert, type Clock } from "@concord/runtime";
import { failureOf, silentNodes } from "./failure.ts";
import { CHECK_TIMEOUT_MS, CONNECT_TIMEOUT_MS, CONNECTION_REQUESTS_MAX, CONNECTIONS_PER_HOST, SCHEMA_TIMEOUT_MS } from "./limits.ts";
import type {
  Answer,
  CassandraNode,
  CassandraSession,
  Parameter,
  ReadSettings,
  ResultRow,
  SessionOptions,
  Statement,
  WriteSettings,
} from "./session.ts";
import { SpeculationPolicy } from "./speculation-policy.ts";
import { ZonesPolicy } from "./zones-policy.ts";

const { quorum, serial } = types.consistencies;
const I64_MAX = (1n << 63n) - 1n;
const I64_MIN = -(1n << 63n);

/** What failed is tried at another coordinator only when nothing can have come of it twice: statements that say so, and lost connections. */
class LostConnectionRetry extends policies.retry.RetryPolicy {
  override onReadTimeout(): policies.retry.DecisionInfo {
    return this.rethrowResult();
  }

  override onWriteTimeout(): policies.retry.DecisionInfo {
    return this.rethrowResult();
  }

  override onUnavailable(): policies.retry.DecisionInfo {
    return this.rethrowResult();
  }

  override onRequestError(info: policies.retry.OperationInfo, _: types.consistencies, error: Error): policies.retry.DecisionInfo {
    const isSlow = error.name === "OperationTimedOutError";
    return isSlow || info.nbRetry > 0 ? this.rethrowResult() : this.retryResult(info.executionOptions.getConsistency(), false);
  }
}

export async function openDriverSession(options: SessionOptions): Promise<CassandraSession> {
  const { contactPoints, datacenter, credentials, certificateAuthority, clock, log, onNodeUp } = options;
  const { local, remote } = types.distance;
  const zones = new ZonesPolicy(datacenter, clock);
  const speculation = new SpeculationPolicy();
  const client = new Client({
    contactPoints: [...contactPoints],
    localDataCenter: datacenter,
    ...(credentials === undefined ? {} : { credentials }),
    ...(certificateAuthority === undefined ? {} : { sslOptions: { ca: [certificateAuthority] } }),
    encoding: { useBigIntAsLong: true, map: Map },
    pooling: {
      coreConnectionsPerHost: { [local]: CONNECTIONS_PER_HOST, [remote]: CONNECTIONS_PER_HOST },
      maxRequestsPerConnection: CONNECTION_REQUESTS_MAX,
    },
    socketOptions: { connectTimeout: CONNECT_TIMEOUT_MS },
    protocolOptions: { port: portOf(contactPoints), maxSchemaAgreementWaitSeconds: SCHEMA_TIMEOUT_MS / 1000 },
    policies: {
      loadBalancing: zones,
      retry: new LostConnectionRetry(),
      speculativeExecution: speculation,
    },
    queryOptions: { prepare: true, consistency: quorum, serialConsistency: serial, captureStackTrace: false },
  });
  client.on("log", (level: string, source: string, message: string) => {
    if (level === "error" || level === "warning") log.debug(`cassandra-driver: ${message}`, { source });
  });
  const onUp = (host: Host): void => onNodeUp(host.address);
  try {
    await client.connect();
  } catch (thrown) {
    await client.shutdown().catch(() => undefined);
    throw failureOf(thrown);
  }
  client.on("hostUp", onUp);
  client.on("hostAdd", onUp);
  return new DriverSession(client, clock, zones, speculation);
}

/** All nodes of a cluster listen on one port; the driver takes 9042 for those of which it hears by events, a node that came back among them. */
function portOf(contactPoints: readonly string[]): number {
  const [first] = contactPoints;
  assert(first !== undefined, "there is a contact point");
  return Number(first.slice(first.lastIndexOf(":") + 1));
}

class DriverSession implements CassandraSession {
  readonly #client: Client;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #zones: ZonesPolicy;
  readonly #speculation: SpeculationPolicy;

  constructor(client: Client, clock: Pick<Clock, "monotonicMs">, zones: ZonesPolicy, speculation: SpeculationPolicy) {
    this.#client = client;
    this.#clock = clock;
    this.#zones = zones;
    this.#speculation = speculation;
  }

  async read({ query, parameters }: Statement, settings: ReadSettings): Promise<Answer> {
    const { consistency, timeoutMs, pageRows, pageState } = settings;
    const result = await this.#repeatable(1, timeoutMs, () =>
      this.#client.execute(query, bound(parameters), {
        consistency: consistency === "serial" ? serial : quorum,
        isIdempotent: true,
        readTimeout: timeoutMs,
        fetchSize: pageRows ?? 0,
        ...(pageState === undefined ? {} : { pageState }),
      }),
    );
    return answerOf(result);
  }

  async write(statements: readonly Statement[], { timeoutMs, consistency }: WriteSettings): Promise<void> {
    const settings = {
      isIdempotent: true,
      readTimeout: timeoutMs,
      logged: false,
      consistency: consistency === "all" ? types.consistencies.all : quorum,
    };
    const [first] = statements;
    assert(first !== undefined, "a write has a statement");
    await this.#repeatable(statements.length, timeoutMs, () =>
      statements.length === 1
        ? this.#client.execute(first.query, bound(first.parameters), settings)
        : this.#client.batch(statements.map(forDriver), settings),
    );
  }

  async writeLogged(statements: readonly Statement[], { timeoutMs }: WriteSettings): Promise<void> {
    // Not idempotent for the driver: it would repeat a BATCH_LOG time-out by itself, and its caller waited twice as long.
    await this.#attempt(timeoutMs, () =>
      this.#client.batch(statements.map(forDriver), { isIdempotent: false, readTimeout: timeoutMs, logged: true }),
    );
  }

  async compareAndSet(statements: readonly Statement[], { timeoutMs }: WriteSettings): Promise<Answer> {
    const settings = { isIdempotent: false, readTimeout: timeoutMs, serialConsistency: serial, logged: true };
    const [first] = statements;
    assert(first !== undefined, "a lightweight transaction has a statement");
    const result = await this.#attempt(timeoutMs, () =>
      statements.length === 1
        ? this.#client.execute(first.query, bound(first.parameters), settings)
        : this.#client.batch(statements.map(forDriver), settings),
    );
    return answerOf(result);
  }

  async define(query: string): Promise<void> {
    const settings = { prepare: false, isIdempotent: true, readTimeout: SCHEMA_TIMEOUT_MS };
    await this.#attempt(SCHEMA_TIMEOUT_MS, () => this.#client.execute(query, [], settings));
  }

  async ask(address: string, query: string): Promise<readonly ResultRow[]> {
    const host = this.#client.hosts.get(address);
    const { localOne } = types.consistencies;
    const settings = { prepare: false, host, isIdempotent: true, readTimeout: CHECK_TIMEOUT_MS, consistency: localOne, fetchSize: 0 };
    return answerOf(await this.#attempt(CHECK_TIMEOUT_MS, () => this.#client.execute(query, [], settings))).rows;
  }

  nodes(): readonly CassandraNode[] {
    return this.#client.hosts.values().map((host) => ({ address: host.address, datacenter: host.datacenter, isUp: host.isUp() }));
  }

  avoid(addresses: ReadonlySet<string>): void {
    this.#zones.avoided = addresses;
  }

  async close(): Promise<void> {
    await this.#client.shutdown().catch(() => undefined);
  }

  /** A second coordinator may be asked as well. */
  async #repeatable(statements: number, timeoutMs: number, request: () => Promise<types.ResultSet>): Promise<types.ResultSet> {
    const sentAtMs = this.#clock.monotonicMs();
    const result = await this.#attempt(timeoutMs, request);
    this.#speculation.answered(statements, this.#clock.monotonicMs() - sentAtMs, result.info);
    return result;
  }

  async #attempt<Result>(timeoutMs: number, request: () => Promise<Result>): Promise<Result> {
    try {
      return await request();
    } catch (thrown) {
      this.#zones.silent(silentNodes(thrown, timeoutMs));
      throw failureOf(thrown);
    }
  }
}

function forDriver({ query, parameters }: Statement): { query: string; params: unknown[] } {
  return { query, params: bound(parameters) };
}

/** The driver takes bytes as Buffers only, and writes 2 ** 64 as 0 without a word. */
function bound(parameters: readonly Parameter[]): unknown[] {
  return parameters.map((value) => {
    if (typeof value === "bigint") assert(value <= I64_MAX && value >= I64_MIN, "a bigint has 64 bits");
    if (value instanceof Uint8Array) return bufferOf(value);
    if (value instanceof Map)
      return new Map([...(value as ReadonlyMap<string, Uint8Array>)].map(([name, bytes]) => [name, bufferOf(bytes)]));
    return value;
  });
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function answerOf(result: types.ResultSet): Answer {
  const rows = (result.rows ?? []) as unknown as readonly ResultRow[];
  return { rows, pageState: result.pageState ?? undefined, isApplied: result.wasApplied() };
}
