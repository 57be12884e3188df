import { Latencies } from "@concord/constellation";

export interface LoadOptions {
  readonly inFlight: number;
  readonly seconds: number;
  readonly warmUpSeconds: number;
}

export interface LoadResult {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/**
 * A closed loop: each of `inFlight` workers does one unit of work after the other. `measured` runs while figures are taken: what it
 * returns is called at their end.
 */
export async function closedLoop(options: LoadOptions, work: () => Promise<unknown>, onMeasure: () => () => void): Promise<LoadResult> {
  const measureFrom = performance.now() + options.warmUpSeconds * 1000;
  const until = measureFrom + options.seconds * 1000;
  const latencies = new Latencies();
  const worker = async (): Promise<void> => {
    for (let startedAt = performance.now(); startedAt < until;) {
      await work();
      const endedAt = performance.now();
      if (startedAt >= measureFrom && endedAt < until) latencies.add(endedAt - startedAt);
      startedAt = endedAt;
    }
  };
  const measuring = new Promise<void>((resolve) => {
    setTimeout(() => {
      const end = onMeasure();
      setTimeout(() => {
        end();
        resolve();
      }, options.seconds * 1000);
    }, options.warmUpSeconds * 1000);
  });
  await Promise.all([...Array.from({ length: options.inFlight }, worker), measuring]);
  return { perSecond: latencies.count / options.seconds, p50Ms: latencies.percentileMs(0.5), p99Ms: latencies.percentileMs(0.99) };
}
