import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";

/**
 * "127.0.0.1:PORT" on which nothing listens, of TCP for calls and of UDP for heartbeats; below the ports that the system gives to connections, since
 * a program that was killed takes its port again.
 */
export async function freeAddress(): Promise<string> {
  for (;;) {
    const port = 10_000 + randomInt(20_000);
    const server = createServer();
    const socket = createSocket("udp4");
    try {
      await once(server.listen(port, "127.0.0.1"), "listening");
      await once(socket.bind(port, "127.0.0.1"), "listening");
      return `127.0.0.1:${port}`;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EADDRINUSE") throw thrown;
    } finally {
      server.close();
      socket.close();
    }
  }
}
