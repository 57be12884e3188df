export {
  contract,
  type AnyContract,
  type Contract,
  type ContractFile,
  type GeneratedPackage,
  type MethodFunctions,
  type ServiceContract,
} from "./contract.ts";
export { loadedMessages } from "./loaded-messages.ts";
export type {
  Empty,
  MessageCodec,
  MessageFunctions,
  MessageTypes,
  Method,
  Methods,
  OneOf,
  OneOfInit,
  OperationFields,
  UnaryMethod,
} from "./types.ts";
export { NO_BYTES, Reader, setEntry } from "./wire-reader.ts";
export { MessageTooLarge, Writer } from "./wire-writer.ts";
