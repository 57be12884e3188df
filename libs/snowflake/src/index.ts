export type { GuidSource, HighWaterMark } from "./api.ts";
