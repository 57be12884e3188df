import { secret, z } from "@concord/config";

/** The keys that only Cassandra reads. */
export const CASSANDRA_SHAPE = {
  cassandraContactPoints: z
    .array(z.string().regex(/^.+:\d+$/, "expected host:port"))
    .default([])
    .describe("Cassandra nodes to begin with, host:port; the others are found by them"),
  cassandraDatacenter: z.string().min(1).optional().describe("Cassandra's datacenter whose nodes are asked first; default as datacenter"),
  cassandraKeyspace: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,47}$/, "expected lower-case letters, digits and _, at most 48")
    .default("concord")
    .describe("keyspace of everything Concord keeps; `schema apply` makes it"),
  cassandraReplicas: z
    .record(z.string().min(1), z.number().int().min(1))
    .optional()
    .describe("replicas by Cassandra's datacenter for a keyspace that `schema apply` makes; default 3 in cassandraDatacenter"),
  cassandraUsername: z.string().min(1).optional().describe("user at Cassandra"),
  cassandraPassword: secret(z.string().min(1)).optional().describe("password at Cassandra; give it in the environment"),
  cassandraCaFile: z.string().min(1).optional().describe("PEM file: authority of the Cassandra nodes' certificates; turns TLS on"),
};

/** What the backend on Cassandra reads of the configuration. */
export interface CassandraConfig extends z.output<z.ZodObject<typeof CASSANDRA_SHAPE>> {
  readonly datacenter: string;
  readonly writeTimeoutMs: number;
}

/** Mistakes in the configuration of a backend on Cassandra. */
export function cassandraProblems(config: CassandraConfig): readonly { readonly key: string; readonly message: string }[] {
  const problems: { key: string; message: string }[] = [];
  if (config.cassandraContactPoints.length === 0)
    problems.push({ key: "cassandraContactPoints", message: "backend cassandra needs nodes to begin with" });
  for (const [key, other] of [
    ["cassandraUsername", "cassandraPassword"],
    ["cassandraPassword", "cassandraUsername"],
  ] as const) {
    if (config[key] !== undefined && config[other] === undefined) problems.push({ key, message: `needs ${other} too` });
  }
  return problems;
}
