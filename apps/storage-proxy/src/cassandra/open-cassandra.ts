import { readFileSync } from "node:fs";
import { CassandraBackend, openDriverSession, type SessionOptions } from "@concord/adapter-cassandra";
import type { BackendOptions, OpenedBackend } from "../backend-definition.ts";
import type { CassandraConfig } from "./config.ts";

/** Binds nothing yet: its start connects. Its nodes call each other's services, not ours. */
export async function openCassandra(options: BackendOptions<CassandraConfig>): Promise<OpenedBackend> {
  const { config, environment, drawTimestampUs, onFailed } = options;
  const backend = new CassandraBackend({
    ...connectionOf(config),
    openSession: openDriverSession,
    keyspace: config.cassandraKeyspace,
    environment,
    drawTimestampUs,
    writeTimeoutMs: config.writeTimeoutMs,
    onFailed,
  });
  return { backend, services: [] };
}

export function datacenterOf({ cassandraDatacenter, datacenter }: CassandraConfig): string {
  return cassandraDatacenter ?? datacenter;
}

/** How its nodes are reached. */
export function connectionOf(config: CassandraConfig): Omit<SessionOptions, "clock" | "log" | "onNodeUp"> {
  const { cassandraContactPoints: contactPoints, cassandraUsername: username, cassandraPassword: password, cassandraCaFile: file } = config;
  return {
    contactPoints,
    datacenter: datacenterOf(config),
    credentials: username === undefined || password === undefined ? undefined : { username, password },
    certificateAuthority: file === undefined ? undefined : readFileSync(file, "utf8"),
  };
}
