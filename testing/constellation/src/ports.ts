import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";

/** Ports of the loopback that belong to the caller until it releases them or its process ends. */
export interface ReservedPorts {
  readonly ports: readonly number[];
  release(): Promise<void>;
}

/** Above the ports of `npm start`. */
const FIRST_PORT = 10_000;
/** From here on, where the system does not say, ports are given to connections and to listeners that name none. */
const EPHEMERAL_FIRST_PORT = 32_768;
const BLOCK_PORTS = 64;
export const RESERVED_PORTS_MAX = BLOCK_PORTS - 1;

/**
 * `count` ports that no other constellation takes and the system gives to no connection: a node binds its ports seconds after they were
 * chosen, and again after a restart. The first port of a block is the reservation: it is listened on, so a process that is killed releases it.
 */
export async function reservePorts(count: number): Promise<ReservedPorts> {
  if (count > RESERVED_PORTS_MAX) throw new RangeError(`${count} ports wanted, at most ${RESERVED_PORTS_MAX} can be reserved together`);
  const blocks = Math.floor((firstEphemeralPort() - FIRST_PORT) / BLOCK_PORTS);
  const offset = Math.floor(Math.random() * blocks);
  for (let at = 0; at < blocks; at += 1) {
    const block = FIRST_PORT + ((offset + at) % blocks) * BLOCK_PORTS;
    const reservation = await listen(block).catch(() => undefined);
    if (reservation === undefined) continue;
    const ports = Array.from({ length: count }, (_, index) => block + 1 + index);
    if ((await takenOf(ports.map((port) => `127.0.0.1:${port}`))).length === 0) {
      reservation.unref();
      return { ports, release: () => close(reservation) };
    }
    await close(reservation);
  }
  throw new Error(`no ${count} free ports follow each other between ${FIRST_PORT} and ${firstEphemeralPort()}`);
}

/** Those of the addresses that are listened on. */
export async function takenOf(addresses: readonly string[]): Promise<string[]> {
  const taken: string[] = [];
  for (const address of addresses) {
    try {
      await close(await listen(Number(address.split(":")[1])));
    } catch {
      taken.push(address);
    }
  }
  return taken;
}

function firstEphemeralPort(): number {
  try {
    return Number(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/)[0]);
  } catch {
    return EPHEMERAL_FIRST_PORT;
  }
}

function listen(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
