/** Connections a program takes at the same time, by port. */
export interface ConnectionLimits {
  readonly grpc: number;
  readonly http: number;
  readonly admin: number;
}

/** Of each port, however many files may be open: each connection costs memory too. */
export const CONNECTIONS_MAX: ConnectionLimits = { grpc: 4096, http: 4096, admin: 64 };
/** Of the files that may be open: the share of connections that others begin. Stores, blobs and connections to other servers have the rest. */
const SHARES: ConnectionLimits = { grpc: 0.25, http: 0.2, admin: 0.03 };
/** However few files may be open. */
const CONNECTIONS_MIN = 4;

/** `openFilesMax`: of the process; undefined where it has no limit that we can read. */
export function connectionLimits(openFilesMax: number | undefined): ConnectionLimits {
  const limit = (port: keyof ConnectionLimits): number =>
    openFilesMax === undefined
      ? CONNECTIONS_MAX[port]
      : Math.min(CONNECTIONS_MAX[port], Math.max(CONNECTIONS_MIN, Math.floor(openFilesMax * SHARES[port])));
  return { grpc: limit("grpc"), http: limit("http"), admin: limit("admin") };
}
