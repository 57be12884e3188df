import type { SeedReport } from "./report.ts";

export type Outcomes = SeedReport["outcomes"];
