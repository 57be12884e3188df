export type { Journal, JournalFindings, JournalOptions, JournalRecord } from "./api.ts";
export { JOURNAL_LIMITS, type JournalLimits } from "./limits.ts";
export { JOURNAL_METRICS } from "./metrics.ts";
export { openJournal } from "./open.ts";
export { salvageJournal, type Filler, type LostSpan, type Salvaged } from "./salvage.ts";
