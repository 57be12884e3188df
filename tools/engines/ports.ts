import { createServer, type Server } from "node:net";

/** Ports that nothing listens on, on any address of this machine. */
export async function freePorts(count: number): Promise<readonly number[]> {
  // All are open at once, so no two are the same.
  const servers = await Promise.all(Array.from({ length: count }, () => listen(0, "0.0.0.0")));
  const ports = servers.map((server) => (server.address() as { readonly port: number }).port);
  await Promise.all(servers.map(close));
  return ports;
}

/** Rejects with the port's number when something listens there. */
export async function checkFree(port: number, host: string): Promise<void> {
  try {
    await close(await listen(port, host));
  } catch (cause) {
    throw new Error(`port ${port} of ${host} is taken: stop what listens there, or start a new cluster in another --data`, { cause });
  }
}

function listen(port: number, host: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject).listen(port, host, () => resolve(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}
