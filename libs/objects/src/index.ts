export type * from "./api.ts";
export type * from "./rows.ts";
export type * from "./upload-journal.ts";
