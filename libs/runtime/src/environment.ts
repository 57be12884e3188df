import type { Clock } from "./clock.ts";
import type { Log, Metrics } from "./observe.ts";
import type { Random } from "./random.ts";
import type { StartWaits } from "./start-waits.ts";
import type { StopProgress } from "./stop-progress.ts";
import type { Tasks } from "./task.ts";
import type { Tracer } from "./trace.ts";
import type { Transport } from "./transport.ts";

/** CRC32C or better, unsigned, passed in because base and domain code imports nothing. With `previous` it goes on from earlier bytes. */
export type Checksum = (bytes: Uint8Array, previous?: number) => number;

/** Everything a service takes from the outside besides its stores. main.ts passes the real ones, the simulator its own. */
export interface Environment {
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  readonly checksum: Checksum;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Left out: nothing is traced. */
  readonly tracer?: Tracer | undefined;
  /** What the start waits for, shown by /readyz. Left out: it is logged only. */
  readonly startWaits?: StartWaits;
  /** Waits of the stop and its progress: the process waits while there is some. Left out: it is not shown. */
  readonly stopProgress?: StopProgress;
  /** Background work, shown by the admin page /tasks. Left out: it is not listed. */
  readonly tasks?: Tasks;
  /**
   * A named point where a test may kill or pause the process ("batch:after-log", ...). Does nothing in production unless the
   * operator's test configuration names the point.
   */
  readonly failpoint: (name: string) => void;
}
