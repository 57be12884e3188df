// What the kernel's tables say of requests that a process has not read.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket as Connection } from "node:net";
import { test } from "node:test";
import { parseSockets, unreadOf, unreadRequests } from "./unread-requests.ts";

const HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
/** The services' ends (IPv4), then those of a JVM on port 9092 (IPv4 within IPv6); 0100007F:2384 is 127.0.0.1:9092. */
const OURS = `${HEAD}
   0: 0100007F:9C40 0100007F:2384 01 00000000:00000000 00:00000000 00000000     0        0 501 1 0 20 4 30 10 -1
   1: 0100007F:9C41 0100007F:2384 01 00000000:00000000 00:00000000 00000000     0        0 502 1 0 20 4 30 10 -1
   2: 0100007F:9C42 0100007F:2384 01 00000000:00000000 00:00000000 00000000     0        0 900 1 0 20 4 30 10 -1
   3: 0100007F:9C43 0100007F:2385 01 00000000:00000000 00:00000000 00000000     0        0 503 1 0 20 4 30 10 -1
`;
const LOCAL = "0000000000000000FFFF00000100007F";
const THEIRS = `${HEAD}
   0: ${LOCAL}:2384 ${LOCAL}:9C40 01 00000000:00000200 00:00000000 00000000     0        0 601 1 0 20 4 30 10 -1
   1: ${LOCAL}:2384 ${LOCAL}:9C41 01 00000000:0000000D 00:00000000 00000000     0        0 602 1 0 20 4 30 10 -1
   2: ${LOCAL}:2384 ${LOCAL}:9C42 01 00000000:00000400 00:00000000 00000000     0        0 603 1 0 20 4 30 10 -1
   3: ${LOCAL}:2385 ${LOCAL}:9C43 01 00000000:00000800 00:00000000 00000000     0        0 604 1 0 20 4 30 10 -1
`;

test("unread: requests of the services at that node alone; heartbeats, other processes and other nodes do not count", () => {
  const sockets = [...parseSockets(OURS), ...parseSockets(THEIRS)];
  const inodes = new Set(["501", "502", "503"]);
  assert.deepEqual(unreadOf(sockets, inodes, "127.0.0.1:9092"), { connections: 1, of: 2, bytes: 512 });
  assert.deepEqual(unreadOf(sockets, inodes, "localhost:9093"), { connections: 1, of: 1, bytes: 2_048 });
  assert.deepEqual(unreadOf(sockets, new Set(), "127.0.0.1:9092"), { connections: 0, of: 0, bytes: 0 });
});

test(
  "unread: a server of this machine that does not read: what was sent to it is found",
  { skip: process.platform === "linux" ? false : "only Linux has these tables" },
  async (t) => {
    const server = createServer({ pauseOnConnect: true });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const accepted = once(server, "connection") as Promise<Connection[]>;
    const client = connect(port, "127.0.0.1");
    const [peer] = await accepted;
    t.after(() => {
      client.destroy();
      peer!.destroy();
      server.close();
    });
    const address = `127.0.0.1:${port}`;
    assert.deepEqual(unreadRequests(address, [process.pid]), { connections: 0, of: 1, bytes: 0 });
    await new Promise((resolve) => void client.write(Buffer.alloc(1_000), resolve));
    assert.deepEqual(unreadRequests(address, [process.pid]), { connections: 1, of: 1, bytes: 1_000 });
  },
);
