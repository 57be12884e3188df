export type * from "./api.ts";
export type * from "./rows.ts";
