import { CASSANDRA_METRICS } from "@concord/adapter-cassandra";
import { LOGGED_BATCH_METRICS } from "@concord/logged-batch";
import type { BackendDefinition } from "./backend-definition.ts";
import { CASSANDRA_SHAPE, cassandraProblems, type CassandraConfig } from "./cassandra/config.ts";
import { openCassandra } from "./cassandra/open-cassandra.ts";
import { RING_SHAPE, ringProblems, type RingConfig } from "./ring/config.ts";
import { RING_METRICS } from "./ring/metrics.ts";
import { openRing } from "./ring/open-ring.ts";

const ring: BackendDefinition<RingConfig> = { open: openRing, problems: ringProblems, metrics: RING_METRICS };
const cassandra: BackendDefinition<CassandraConfig> = {
  open: openCassandra,
  problems: cassandraProblems,
  metrics: [...LOGGED_BATCH_METRICS, ...CASSANDRA_METRICS],
};

/** The engines a storage-proxy can keep its data in, by the value of the key `backend`. */
export const BACKENDS = { ring, cassandra } as const;
export const DEFAULT_BACKEND = "ring" satisfies keyof typeof BACKENDS;

/** The configuration keys of all engines. */
export const BACKEND_SHAPES = { ...RING_SHAPE, ...CASSANDRA_SHAPE };
