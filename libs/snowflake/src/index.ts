export type { GuidSource, HighWaterMark, IdRange, IdSource } from "./api.ts";
export { endMs, initialState, issue, type GuidState, type Issue } from "./issue.ts";
export { GUID_END_MS, GUID_MAX, makeGuid, partsOfGuid, type GuidParts } from "./layout.ts";
export {
  BORROW_MS_MAX,
  GUID_EPOCH_MS,
  MARK_AHEAD_MS,
  SEQUENCES_PER_MS,
  STEP_BACK_MS_MAX,
  TAKE_COUNT_MAX,
  TEXT_LENGTH,
  WORKER_ID_MAX,
} from "./limits.ts";
export { openGuidSource, type GuidSourceOptions } from "./source.ts";
export { decodeMark, encodeMark, storedMark, type MarkStore } from "./stored-mark.ts";
export { guidFromText, guidToText } from "./text.ts";
