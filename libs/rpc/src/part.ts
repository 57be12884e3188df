import { startHost, type HostOptions, type ServiceHost } from "./host.ts";
import type { Service } from "./service.ts";

/** A part of a program: its services, and its life on a host that other parts may share. It lives once: open, serve, stop. */
export interface Part<Addresses> {
  /** Calls to it can be expected to succeed: of the program's readiness. */
  readonly ready: boolean;
  /**
   * Takes what nothing else may have, as the lock of a data folder, and answers the services to mount; their calls get STARTING until
   * it serves. Rejects when the part must not start, or is stopped meanwhile.
   */
  open(): Promise<readonly Service[]>;
  /**
   * Resolves when the part serves on `host`, which has the services of `open`. Rejects when the part must not serve, or is stopped
   * meanwhile; then it has drained the host and closed what it had.
   */
  serve(host: ServiceHost): Promise<Addresses>;
  /** Drains its host, then closes what it opened, in every phase. Never rejects; a second call waits for the first. */
  stop(): Promise<void>;
}

/** One part alone: a host of its own. */
export async function startAlone<Addresses>(part: Part<Addresses>, options: Omit<HostOptions, "services">): Promise<Addresses> {
  const services = await part.open();
  let host: ServiceHost;
  try {
    host = await startHost({ ...options, services });
  } catch (thrown) {
    await part.stop();
    throw thrown;
  }
  return part.serve(host);
}
