// The thread that beats: a garbage collection or a long turn of the main loop delays no beat. It never covers a main loop that hangs: each beat
// says how long that has made no progress.
import { createSocket, type Socket } from "node:dgram";
import { parentPort, workerData } from "node:worker_threads";
import {
  DetectorLoop,
  linksOf,
  MESH_MEMBERS_MAX,
  topologyOf,
  type MemberAddress,
  type MemberList,
  type ReadList,
} from "@concord/failure-detection";
import type { Input, Traffic, WorkerInput, WorkerOutput } from "./messages.ts";
import { Paths } from "./paths.ts";
import { PeerAddresses, socketAddressOf } from "./peer-addresses.ts";
import { sealWith } from "./sealed-datagram.ts";
import { SharedMemory } from "./shared-memory.ts";
import { systemClock } from "./system-clock.ts";

const TRAFFIC_EVERY_MS = 1_000;

const input = workerData as WorkerInput;
const memory = new SharedMemory(input.memory);
const { seal, open } = sealWith(input.secret);
const traffic = { sent: 0, received: 0, streamed: 0, foreign: 0, malformed: 0 };

/** Its time is the main thread's. */
const clock = systemClock(input.clockOffsetMs);
const tell = (output: WorkerOutput): void => parentPort!.postMessage(output);

const list = "version" in input.members ? input.members : undefined;
let members: readonly (MemberAddress | undefined)[] = "version" in input.members ? input.members.members : input.members;
/** They tell one cluster from another. */
const names = "version" in input.members ? input.members.founders : input.members.map(({ name }) => name);
const paths = new Paths(list !== undefined ? MESH_MEMBERS_MAX : members.length, clock.monotonicMs());
/** Others are too many for a stream each: what they miss their neighbours tell. A list that changes is a mesh. */
const linked = list !== undefined ? undefined : new Set(linksOf(topologyOf(members.length), input.self));
const blocked = new Set<number>();

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
  const addresses = new PeerAddresses(addressesOf(members), family, clock);
  const { self, incarnation, limits } = input;
  const loop = new DetectorLoop({
    self,
    incarnation,
    limits,
    clock,
    members: names,
    ...(list === undefined ? {} : { list: { list: memberListOf(list), untilMs: list.readAtMs + limits.listValidMs } }),
    onNewerList: (version) => tell({ kind: "newer-list", version }),
    loopStalledMs: progressWatch(),
    send: (to, payload) => {
      const sealed = seal(payload);
      if ((linked === undefined || linked.has(to)) && paths.needsStream(to, clock.monotonicMs())) stream(to, sealed);
      const address = addresses.of(to);
      if (address === undefined) return;
      traffic.sent += 1;
      socket.send(sealed, address.port, address.host, () => undefined);
    },
    onChange: (change) => tell({ kind: "change", change }),
    onLease: (endMs) => memory.setLeaseEndMs(endMs),
  });
  socket.on("message", (datagram) => {
    const from = hear(loop, datagram);
    if (from !== undefined) paths.heardByUdp(from, clock.monotonicMs());
  });
  parentPort!.on("message", (message: Input) => {
    if (message.kind === "list") {
      changeMembers(message.list.members);
      addresses.change(addressesOf(members));
      loop.listRead(memberListOf(message.list), message.list.readAtMs);
      return;
    }
    for (const datagram of message.datagrams) {
      const from = hear(loop, datagram);
      if (from !== undefined) heardByStream(from, message.hearsNoUdp);
    }
  });
  clock.setTimer(TRAFFIC_EVERY_MS, reportTraffic);
}

function changeMembers(after: readonly (MemberAddress | undefined)[]): void {
  const nowMs = clock.monotonicMs();
  for (let place = 0; place < MESH_MEMBERS_MAX; place += 1) {
    if (after[place]?.address === members[place]?.address) continue;
    paths.begin(place, nowMs);
    blocked.delete(place);
  }
  members = after;
}

function memberListOf({ version, members: listed }: ReadList): MemberList {
  return { version, names: listed.map((member) => member?.name) };
}

function addressesOf(listed: readonly (MemberAddress | undefined)[]): (string | undefined)[] {
  return listed.map((member) => member?.address);
}

/** The sender's place; undefined for what no member of this cluster made. */
function hear(loop: DetectorLoop, datagram: Uint8Array): number | undefined {
  traffic.received += 1;
  const payload = open(datagram);
  if (payload === undefined) {
    traffic.foreign += 1;
    return undefined;
  }
  const from = loop.receive(payload);
  if (typeof from === "number") return from;
  traffic.malformed += 1;
  return undefined;
}

function stream(to: number, datagram: Uint8Array): void {
  if (!input.hasStreams) return;
  traffic.streamed += 1;
  tell({ kind: "stream", to, datagram, hearsNoUdp: paths.isSilent(to, clock.monotonicMs()) });
}

function heardByStream(from: number, hearsNoUdp: boolean): void {
  const nowMs = clock.monotonicMs();
  paths.heardByStream(from, hearsNoUdp, nowMs);
  if (!paths.isSilent(from, nowMs) || blocked.has(from)) return;
  blocked.add(from);
  tell({ kind: "blocked", member: from });
}

function reportTraffic(): void {
  const since: Traffic = { ...traffic };
  Object.assign(traffic, { sent: 0, received: 0, streamed: 0, foreign: 0, malformed: 0 });
  tell({ kind: "traffic", traffic: since });
  clock.setTimer(TRAFFIC_EVERY_MS, reportTraffic);
}

listen();
