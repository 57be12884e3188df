export { HTTP_LIMITS, type HttpLimits } from "./limits.ts";
export { HTTP_METRICS } from "./metrics.ts";
export { s3Snapshots, type S3SnapshotsOptions } from "./s3-snapshots.ts";
export { nodeHttpServer, type NodeHttpServerOptions } from "./node-http-server.ts";
