export type {
  BatchOptions,
  BatchResult,
  CallOptions,
  CommitToken,
  ConcordClient,
  ConnectOptions,
  Entity,
  Fields,
  LockOptions,
  Node,
  OpenTransaction,
  Outcome,
  Page,
  QueryOptions,
  Range,
  Row,
  TlsOptions,
  Topology,
  Transaction,
  TransactionOptions,
  TypedValue,
  Value,
  Write,
} from "./api.ts";
export { connect } from "./connect.ts";
export { connectThrough, type ClientSurroundings } from "./connect-through.ts";
export { ConcordClientError, type ConcordClientErrorFields, type ConcordErrorCode } from "./errors.ts";
export { typed } from "./values.ts";
