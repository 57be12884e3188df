/** What every server process does around its services: serve them with health and reflection, and drain on a signal. */
import {
  runningTimer,
  StopProgress,
  type Clock,
  type Listener,
  type Log,
  type Metrics,
  type ServedMethod,
  type Transport,
} from "@concord/runtime";
import type { Authenticator } from "./auth.ts";
import { healthMethods } from "./health.ts";
import { reflectionMethods } from "./reflection.ts";
import type { Service } from "./service.ts";

/** Of the grace, this part belongs to calls in flight; the rest to closing connections. */
const DRAIN_CALLS_SHARE = 0.8;

export interface ServiceHost {
  /** The bound address. */
  readonly address: string;
  /** All services answer from now on. Services that must answer earlier have been set to `serving` by their owner. */
  setServing(): void;
  /** True while every service is `serving`: readiness. */
  readonly ready: boolean;
  /**
   * Health says NOT_SERVING, new calls get DRAINING, calls in flight finish, session streams end, connections close. After
   * `graceMs` whatever is left is cut. Never hangs, never rejects; a second call waits for the first.
   */
  drain(graceMs: number): Promise<void>;
}

/** One address for the services of several parts of a program. */
export interface SharedHost {
  /** The bound address. */
  readonly address: string;
  /** The host as one part knows it: `services` are its own, and its drain leaves the connections to the others. */
  hostOf(services: readonly Service[]): ServiceHost;
  /** After the parts have drained: connections close, whatever is left after `graceMs` is cut. Never hangs, never rejects. */
  close(graceMs: number): Promise<void>;
}

export interface HostOptions {
  readonly transport: Transport;
  /** "127.0.0.1:0" binds a free port. */
  readonly address: string;
  readonly services: readonly Service[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Of those who may ask reflection. */
  readonly authenticator: Authenticator;
  /** Names the calls and connections that a drain waits for. */
  readonly stopProgress?: StopProgress;
  /** Off for a server that should not describe itself. */
  readonly reflection?: boolean;
}

/** Binds the address and serves; the services are still in the state their owner gave them. */
export async function startHost(options: HostOptions): Promise<ServiceHost> {
  const listener = await listen(options);
  const { services, clock, log } = options;
  return hostOf(services, listener.address, async (graceMs) => {
    const endsAtMs = clock.monotonicMs() + graceMs;
    await drainServices(options, services, graceMs);
    await drainListener(options, listener, Math.max(graceMs * (1 - DRAIN_CALLS_SHARE), endsAtMs - clock.monotonicMs()));
    log.info("drained", { address: listener.address });
  });
}

/** As `startHost`, for parts that drain one after the other. */
export async function startSharedHost(options: HostOptions): Promise<SharedHost> {
  const listener = await listen(options);
  return {
    address: listener.address,
    hostOf: (services) => hostOf(services, listener.address, (graceMs) => drainServices(options, services, graceMs)),
    close: async (graceMs) => {
      await drainListener(options, listener, graceMs);
      options.log.info("drained", { address: listener.address });
    },
  };
}

async function listen(options: HostOptions): Promise<Listener> {
  const { transport, address, services, log, metrics, authenticator } = options;
  const methods: ServedMethod[] = [...services.flatMap((service) => service.methods), ...healthMethods(services, metrics)];
  if (options.reflection !== false) {
    const contracts = services.map((service) => service.contract);
    const serviceNames = [...services.map((service) => service.name), "grpc.health.v1.Health"];
    methods.push(...reflectionMethods({ contracts, serviceNames, metrics, authenticator }));
  }
  const listener = await transport.serve(address, methods);
  log.info("listening", { address: listener.address, services: services.map((service) => service.name).join(" ") });
  return listener;
}

function hostOf(services: readonly Service[], address: string, drain: (graceMs: number) => Promise<void>): ServiceHost {
  let drained: Promise<void> | undefined;
  return {
    address,
    setServing: () => {
      for (const service of services) service.setState("serving");
    },
    get ready() {
      return services.every((service) => service.state === "serving");
    },
    drain: (graceMs) => (drained ??= drain(graceMs)),
  };
}

async function drainServices(options: HostOptions, services: readonly Service[], graceMs: number): Promise<void> {
  const { clock, log, stopProgress = new StopProgress() } = options;
  for (const service of services) service.setState("draining");
  const calls = Promise.all(services.map((service) => service.whenDrained()));
  const late = Promise.withResolvers<void>();
  const timer = runningTimer(clock, graceMs * DRAIN_CALLS_SHARE, late.resolve);
  const inFlight = (): number => services.reduce((sum, service) => sum + service.inFlight, 0);
  await stopProgress.during(
    () => `gRPC calls in flight: ${inFlight()}`,
    () => Promise.race([calls, late.promise]),
  );
  timer.cancel();
  const cut = inFlight();
  if (cut > 0) log.warn("drain: calls are cut off", { calls: cut });
}

function drainListener({ stopProgress = new StopProgress() }: HostOptions, listener: Listener, graceMs: number): Promise<void> {
  return stopProgress.during(`gRPC connections at ${listener.address}`, () => listener.drain(graceMs));
}
