import type { CassandraSession, SessionOptions } from "./session.ts";

/** A session of cassandra-driver, which is loaded only here: programs on another backend start sooner without it. */
export async function openDriverSession(options: SessionOptions): Promise<CassandraSession> {
  const { openDriverSession: open } = await import("./driver-session.ts");
  return await open(options);
}
