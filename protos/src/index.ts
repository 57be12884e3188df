export { contract, type AnyContract, type Contract, type ContractFile, type ServiceContract } from "./contract.ts";
export type { Empty, MessageCodec, MessageTypes, Method, Methods, OneOf, OneOfInit, UnaryMethod } from "./types.ts";
