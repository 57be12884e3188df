import { crc32 } from "@concord/checksums";
import {
  StartWaits,
  StopProgress,
  Tasks,
  type Checksum,
  type Environment,
  type Log,
  type Metrics,
  type Tracer,
  type Transport,
} from "@concord/runtime";
import { nodeClock } from "./clock.ts";
import { nodeFailpoint } from "./failpoint.ts";
import { openFilesMax } from "./open-files.ts";
import { nodeRandom } from "./random.ts";

/** CRC-32 (IEEE), unsigned. */
export const nodeChecksum: Checksum = crc32;

export interface NodeEnvironmentOptions {
  readonly transport: Transport;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The process's environment variables: the failpoint is read from them. */
  readonly env: NodeJS.ProcessEnv;
  readonly tracer?: Tracer | undefined;
  readonly tasks?: Tasks;
}

export interface NodeEnvironment extends Environment {
  readonly startWaits: StartWaits;
  readonly stopProgress: StopProgress;
  readonly tasks: Tasks;
}

/** The real world for a service factory. */
export function nodeEnvironment(options: NodeEnvironmentOptions): NodeEnvironment {
  const { transport, log, metrics, env, tracer, tasks = new Tasks() } = options;
  return {
    clock: nodeClock,
    random: nodeRandom,
    checksum: nodeChecksum,
    transport,
    log,
    metrics,
    startWaits: new StartWaits({ clock: nodeClock, log }),
    stopProgress: new StopProgress(),
    tasks,
    failpoint: nodeFailpoint(env),
    tracer,
  };
}

/** The machine under a server program: all that one needs before it has an environment. */
export const nodeMachine = { clock: nodeClock, random: nodeRandom, openFilesMax, environment: nodeEnvironment };
