// The thread that beats: a garbage collection or a long turn of the main loop delays no beat. It never covers a main loop that hangs: each beat
// says how long that has made no progress.
import { createSocket, type Socket } from "node:dgram";
import { parentPort, workerData } from "node:worker_threads";
import { DetectorLoop } from "@concord/failure-detection";
import type { Traffic, WorkerInput, WorkerOutput } from "./messages.ts";
import { PeerAddresses, socketAddressOf } from "./peer-addresses.ts";
import { sealWith } from "./sealed-datagram.ts";
import { SharedMemory } from "./shared-memory.ts";
import { systemClock } from "./system-clock.ts";

const TRAFFIC_EVERY_MS = 1_000;

const input = workerData as WorkerInput;
const memory = new SharedMemory(input.memory);
const { seal, open } = sealWith(input.secret);
const traffic = { sent: 0, received: 0, foreign: 0, malformed: 0 };

/** Its time is the main thread's. */
const clock = systemClock(input.clockOffsetMs);
const tell = (output: WorkerOutput): void => parentPort!.postMessage(output);

/** How long the main loop has made no progress, as far as the looks at its counter tell. */
function progressWatch(): () => number {
  let [seen, seenAtMs] = [memory.progress, clock.monotonicMs()];
  return () => {
    const nowMs = clock.monotonicMs();
    if (memory.progress !== seen) [seen, seenAtMs] = [memory.progress, nowMs];
    return nowMs - seenAtMs;
  };
}

function listen(): void {
  const { host, port } = socketAddressOf(input.listenAddress);
  const family = host.includes(":") ? 6 : 4;
  const socket = createSocket(family === 6 ? "udp6" : "udp4");
  socket.once("error", ({ message }) => tell({ kind: "failed", message: `heartbeats on UDP ${input.listenAddress}: ${message}` }));
  socket.bind({ address: host, port, exclusive: true }, () => {
    socket.removeAllListeners("error");
    // Afterwards only sends fail, as when a member's host is unknown; such a beat is a lost one.
    socket.on("error", () => undefined);
    beat(socket, family);
    tell({ kind: "bound" });
  });
}

function beat(socket: Socket, family: 4 | 6): void {
  const addresses = new PeerAddresses(
    input.members.map(({ address }) => address),
    family,
    clock,
  );
  const loop = new DetectorLoop({
    ...input,
    members: input.members.map(({ name }) => name),
    clock,
    loopStalledMs: progressWatch(),
    send: (to, payload) => {
      const address = addresses.of(to);
      if (address === undefined) return;
      traffic.sent += 1;
      socket.send(seal(payload), address.port, address.host, () => undefined);
    },
    onChange: (change) => tell({ kind: "change", change }),
    onLease: (endMs) => memory.setLeaseEndMs(endMs),
  });
  socket.on("message", (datagram) => {
    traffic.received += 1;
    const payload = open(datagram);
    if (payload === undefined) traffic.foreign += 1;
    else if (loop.receive(payload) !== undefined) traffic.malformed += 1;
  });
  clock.setTimer(TRAFFIC_EVERY_MS, reportTraffic);
}

function reportTraffic(): void {
  const since: Traffic = { ...traffic };
  Object.assign(traffic, { sent: 0, received: 0, foreign: 0, malformed: 0 });
  tell({ kind: "traffic", traffic: since });
  clock.setTimer(TRAFFIC_EVERY_MS, reportTraffic);
}

listen();
