import { createServer, type AddressInfo } from "node:net";

/** Ports of the loopback that nobody listens on now. They are held together before any is let go, so all differ. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => listen(0)));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

/** Those of the addresses that somebody listens on. */
export async function takenOf(addresses: readonly string[]): Promise<string[]> {
  const taken: string[] = [];
  for (const address of addresses) {
    try {
      const server = await listen(Number(address.split(":")[1]));
      await new Promise((resolve) => server.close(resolve));
    } catch {
      taken.push(address);
    }
  }
  return taken;
}

function listen(port: number): Promise<ReturnType<typeof createServer>> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}
