export { CassandraBackend, type CassandraBackendOptions } from "./cassandra-backend.ts";
export { openDriverSession } from "./open-session.ts";
export { CASSANDRA_METRICS } from "./metrics.ts";
export { applySchema, planSchema, type SchemaOptions, type SchemaPlan } from "./schema.ts";
export type { CassandraSession, OpenSession, SessionOptions } from "./session.ts";
