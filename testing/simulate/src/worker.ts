// One process of the pool: runs the seeds it is sent, one at a time, and answers a report for each.
import { runSeed } from "./run-seed.ts";

export interface Job {
  readonly scenario: string;
  readonly seed: number;
}

process.on("disconnect", () => process.exit());
process.on("message", (job: Job) => {
  runSeed(job.scenario, job.seed, { keepTrace: false }).then(
    ({ report }) => process.send?.(report),
    (thrown: unknown) => {
      console.error(thrown);
      process.exit(1);
    },
  );
});
