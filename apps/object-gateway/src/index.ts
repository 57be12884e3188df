export { composeObjectGateway } from "./composition.ts";
export type { ObjectGatewayOptions } from "./options.ts";
export { objectGatewaySchema, type ObjectGatewayConfig } from "./config.ts";
export type { BucketFolder } from "./direct-bucket.ts";
export { absentHandler } from "./http/pipeline.ts";
export { OBJECT_GATEWAY_METRICS } from "./metrics.ts";
export type { Addresses, ObjectGatewayService } from "./service.ts";
export { CONTRACTS as OBJECT_GATEWAY_CONTRACTS } from "./rpc/services.ts";
export type { GatewayTuning } from "./gateway-store.ts";
