import { assert, ConcordError } from "@concord/runtime";
import { LANE_RETRY_MS, LANE_WAITERS_MAX, LANES_WAITERS_MAX } from "./limits.ts";

export interface LaneLimits {
  readonly waitersPerLaneMax: number;
  readonly waitersMax: number;
}

const LIMITS: LaneLimits = { waitersPerLaneMax: LANE_WAITERS_MAX, waitersMax: LANES_WAITERS_MAX };

/** The tasks of one name. */
interface Lane {
  last: Promise<unknown>;
  /** Without the one that runs. */
  waiting: number;
}

/** Runs tasks of one name one after the other, those of different names together. OVERLOADED, nothing applied, when too many wait. */
export class Lanes {
  readonly #limits: LaneLimits;
  readonly #lanes = new Map<string, Lane>();
  #waiting = 0;

  constructor(limits: LaneLimits = LIMITS) {
    this.#limits = limits;
  }

  async run<Result>(name: string, task: () => Promise<Result>): Promise<Result> {
    const lane = this.#lanes.get(name);
    return lane === undefined ? await this.#first(name, task) : await this.#next(name, lane, task);
  }

  async #first<Result>(name: string, task: () => Promise<Result>): Promise<Result> {
    const running = task();
    const lane: Lane = { last: running, waiting: 0 };
    this.#lanes.set(name, lane);
    return await this.#ended(name, lane, running);
  }

  async #next<Result>(name: string, lane: Lane, task: () => Promise<Result>): Promise<Result> {
    const { waitersPerLaneMax, waitersMax } = this.#limits;
    if (lane.waiting >= waitersPerLaneMax) throw overloaded("LANE_WAITERS_MAX", lane.waiting);
    if (this.#waiting >= waitersMax) throw overloaded("LANES_WAITERS_MAX", this.#waiting);
    lane.waiting += 1;
    this.#waiting += 1;
    const begin = (): Promise<Result> => {
      lane.waiting -= 1;
      this.#waiting -= 1;
      assert(lane.waiting >= 0 && this.#waiting >= 0, "a task waits once");
      return task();
    };
    const running = lane.last.then(begin, begin);
    lane.last = running;
    return await this.#ended(name, lane, running);
  }

  async #ended<Result>(name: string, lane: Lane, running: Promise<Result>): Promise<Result> {
    try {
      return await running;
    } finally {
      if (lane.last === running) this.#lanes.delete(name);
    }
  }
}

function overloaded(limit: string, waiting: number): ConcordError {
  return new ConcordError(
    "OVERLOADED",
    `${waiting} requests wait for Cassandra to answer earlier ones of their partition; try again later`,
    {
      applied: "no",
      retryAfterMs: LANE_RETRY_MS,
      metadata: { limit, value: String(waiting) },
    },
  );
}
