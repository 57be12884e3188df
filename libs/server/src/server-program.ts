// The frame of every server program: settings, log, metrics, traces, sockets and the admin port around one service.
import { readFileSync } from "node:fs";
import {
  buildOf,
  configOfProcess,
  watchTls,
  type z,
  type Build,
  type ConfigProcess,
  type ConfigSchema,
  type ServerConfig,
  type WatchedTls,
} from "@concord/config";
import { grpcTransport, runMain, type MainProcess, type Running } from "@concord/rpc";
import {
  connectionLimits,
  Tasks,
  type Clock,
  type ConcordError,
  type Environment,
  type Log,
  type Metrics,
  type MetricDefinition,
  type Random,
  type Tracer,
  type Transport,
} from "@concord/runtime";
import {
  createLog,
  createMetrics,
  startAdmin,
  startTracing,
  type Admin,
  type AdminOptions,
  type MetricsRegistry,
  type Tracing,
} from "@concord/telemetry";

/** The machine under a program. */
export interface Machine {
  readonly clock: Clock;
  readonly random: Random;
  readonly openFilesMax: () => number | undefined;
  readonly environment: (parts: {
    readonly transport: Transport;
    readonly log: Log;
    readonly metrics: Metrics;
    readonly env: NodeJS.ProcessEnv;
    readonly tracer: Tracer | undefined;
    readonly tasks: Tasks;
  }) => ProgramEnvironment;
}

export type ProgramEnvironment = Environment & Required<Pick<Environment, "startWaits" | "stopProgress" | "tasks">>;

/** Keys of the configuration that the frame uses. */
export interface ProgramConfig extends ServerConfig {
  readonly nodeName: string;
}

/** A program before it opens anything. */
export interface Settings<Config extends ProgramConfig> {
  readonly name: string;
  readonly config: Config;
  readonly build: Build;
  readonly log: Log;
}

export const readText = (path: string): string => readFileSync(path, "utf8");

/** Settings of the program whose main is in the folder. Ends the process where it only prints a text, or where the configuration has mistakes. */
export function settingsOf<Schema extends ConfigSchema & z.ZodType<ProgramConfig>>(
  name: string,
  schema: Schema,
  folder: string,
  process: ConfigProcess,
): Settings<z.output<Schema>> {
  const build = buildOf(folder, globalThis.process.version, readText);
  const config = configOfProcess(name, schema, process, readText, build);
  return { name, config, build, log: createLog({ name: config.nodeName, level: config.logLevel }) };
}

export interface ServerProgramOptions<Config extends ProgramConfig> extends Settings<Config> {
  readonly machine: Machine;
  /** Every metric of the program. */
  readonly definitions: readonly MetricDefinition[];
  /** Environment of the process, whose own metrics are then reported too. Undefined: the process is not the program's. */
  readonly env: NodeJS.ProcessEnv | undefined;
}

/** One service, as the frame runs it. */
export interface Served<Addresses extends object> {
  /** Subject of the log line about a stop that waits for it. */
  readonly name: string;
  readonly service: {
    readonly ready: boolean;
    start(): Promise<Addresses>;
    stop(): Promise<void>;
  };
  /** Further answers of the admin port. */
  readonly admin?: Pick<AdminOptions, "pages" | "problems" | "warnings" | "writes">;
}

/** Options of an HTTP server beside the gRPC server. */
export interface HttpOptions extends Pick<WatchedTls["http"], "tls" | "tlsChanges"> {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly limits: { readonly connectionsMax: number };
  readonly isLeaving: () => boolean;
}

/** One server program on this machine. */
export class ServerProgram<Config extends ProgramConfig> {
  readonly settings: Settings<Config>;
  readonly environment: ProgramEnvironment;
  readonly http: HttpOptions;
  readonly #connections: ReturnType<typeof connectionLimits>;
  readonly #metrics: MetricsRegistry;
  readonly #tracing: Tracing;
  readonly #tls: WatchedTls;
  readonly #failed = Promise.withResolvers<never>();
  #isLeaving = (): boolean => false;
  #admin: Admin | undefined;

  constructor(options: ServerProgramOptions<Config>) {
    const { name, config, build, log, definitions, env, machine } = options;
    const { clock, random } = machine;
    this.settings = options;
    this.#connections = connectionLimits(machine.openFilesMax());
    this.#metrics = createMetrics({ definitions, process: env !== undefined, build });
    const observed = { clock, log, metrics: this.#metrics };
    this.#tracing = startTracing(config, { ...observed, program: name, version: build.version, random });
    const tasks = new Tasks();
    this.#tls = watchTls(config, { readFile: readText, clock, log, tasks });
    const transport = grpcTransport({
      ...observed,
      connectionsMax: this.#connections.grpc,
      inputBytesMax: config.inputBufferBytes,
      outputBytesMax: config.outputBufferBytes,
      ...this.#tls.grpc,
    });
    this.environment = machine.environment({ ...observed, transport, tasks, env: env ?? {}, tracer: this.#tracing.tracer });
    const limits = { connectionsMax: this.#connections.http };
    this.http = { ...observed, limits, isLeaving: () => this.#isLeaving(), ...this.#tls.http };
  }

  /** Rejects when the program cannot go on: it must be stopped and started again. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  /** Rejects `failed`. */
  readonly onFailed = (cause: ConcordError): void => this.#failed.reject(cause);

  /** Opens the admin port, then starts the service. The program is not ready while `isLeaving` returns true. */
  async start<Addresses extends object>(
    served: Served<Addresses>,
    isLeaving: () => boolean,
  ): Promise<Addresses & { readonly adminAddress: string }> {
    const { service, admin: { pages, ...admin } = {} } = served;
    const { config, log } = this.settings;
    this.#isLeaving = isLeaving;
    this.#admin = await startAdmin({
      address: config.adminAddress,
      metrics: this.#metrics,
      ready: () => !isLeaving() && service.ready,
      waitsFor: () => this.environment.startWaits.current,
      log,
      connectionsMax: this.#connections.admin,
      ...admin,
      pages: { ...pages, "/tasks": this.environment.tasks.page },
    });
    log.info("admin", { address: this.#admin.address });
    return { ...(await service.start()), adminAddress: this.#admin.address };
  }

  /** Drains, then closes, the admin port last. */
  async stop({ name, service }: Served<object>): Promise<void> {
    this.#tls.close();
    await this.environment.stopProgress.inOrder({
      [name]: () => service.stop(),
      traces: () => this.#tracing.close(),
      "the admin port": async () => this.#admin?.close(),
    });
  }
}

/** Receives where a program serves once it does; returns what is stopped. */
export type Announce<Addresses> = (addresses: Addresses & { readonly adminAddress: string }, running: Running) => Running;

/** Runs the service that `open` makes until a signal; then stops it and exits, as `runMain` does. */
export function runServer<Config extends ProgramConfig, Addresses extends object>(
  program: ServerProgram<Config>,
  open: () => Promise<Served<Addresses>>,
  process: MainProcess,
  announce: Announce<Addresses> = (_, running) => running,
): Promise<void> {
  const { settings, environment, failed } = program;
  const { log, build, config } = settings;
  return runMain({
    process,
    clock: environment.clock,
    log,
    build: { ...build },
    config,
    progress: environment.stopProgress,
    failed,
    start: async (signal, isLeaving) => {
      const served = await open();
      signal.addEventListener("abort", () => void served.service.stop());
      const addresses = await program.start(served, isLeaving);
      return announce(addresses, { stop: () => program.stop(served) });
    },
  });
}
