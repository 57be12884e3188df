export { HTTP_LIMITS, type HttpLimits } from "./limits.ts";
export { HTTP_METRICS } from "./metrics.ts";
export { nodeHttpServer, type NodeHttpServerOptions } from "./node-http-server.ts";
