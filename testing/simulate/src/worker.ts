// One process of the pool: runs the seeds it is sent, one at a time, and answers a report for each.
import { runSeed } from "./run-seed.ts";

export interface Job {
  readonly scenario: string;
  readonly seed: number;
  /** The run ends at the first violation: the search for seeded faults asks no more. */
  readonly stopsAtViolation?: boolean;
}

process.on("disconnect", () => process.exit());
process.on("message", ({ scenario, seed, stopsAtViolation = false }: Job) => {
  runSeed(scenario, seed, { stopsAtViolation }).then(
    ({ report }) => process.send?.(report),
    (thrown: unknown) => {
      console.error(thrown);
      process.exit(1);
    },
  );
});
