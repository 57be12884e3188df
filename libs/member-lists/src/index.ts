export { addCommandOf, COORDINATOR_LIST, WORKER_LIST, type ListKind } from "./list-kind.ts";
export { answerToWire, listMethods, type ListMethodsOptions } from "./list-methods.ts";
export { memberShape } from "./list-wire.ts";
export {
  changeList,
  endWithListCommand,
  listCommandOf,
  listUsage,
  type CommandOptions,
  type ListCallOptions,
  type ListCommand,
} from "./list-command.ts";
export { COMMAND_POLL_MS } from "./limits.ts";
