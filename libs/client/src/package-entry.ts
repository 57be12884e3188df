// What the installed package exports: the public names of index.ts whose types stand without any other package.
export type * from "./api.ts";
export { connect } from "./connect.ts";
export { ConcordClientError, type ConcordClientErrorFields, type ConcordErrorCode } from "./errors.ts";
export { typed } from "./values.ts";
