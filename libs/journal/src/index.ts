export type { Journal, JournalFindings, JournalRecord } from "./api.ts";
