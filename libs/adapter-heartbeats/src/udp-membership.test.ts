// Real worker threads and datagrams on loopback, on ports that were free a moment ago. Waits for what must happen; no times are asserted.
import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { performance } from "node:perf_hooks";
import type { MembershipChange, ReadList } from "@concord/failure-detection";
import { HeartbeatService } from "@concord/protos-cluster";
import { bearer, callUnary, grpcTransport, startSharedHost, tokenAuthenticator, type SharedHost } from "@concord/rpc";
import { silentLog, silentMetrics, type Clock, type Metrics, type Random } from "@concord/runtime";
import { UdpMembership } from "./index.ts";
import { SEAL_BYTES, sealWith } from "./sealed-datagram.ts";

const SECRET = "a secret of tests";
const clock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Date.now()) * 1_000n,
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, action) => {
    const handle = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(handle) };
  },
  defer: (action) => void setImmediate(action),
};

const random: Random = {
  bytes: (count) => randomBytes(count),
  below: (limit) => Math.floor(Math.random() * limit),
  float: () => Math.random(),
};

class Counts implements Metrics {
  readonly #totals = new Map<string, number>();
  count(name: string, value = 1, labels: Readonly<Record<string, string>> = {}): void {
    const key = [name, ...Object.values(labels)].join(" ");
    this.#totals.set(key, this.of(key) + value);
  }
  of(key: string): number {
    return this.#totals.get(key) ?? 0;
  }
  gauge(): void {}
  observe(): void {}
}

interface Member {
  readonly membership: UdpMembership;
  readonly changes: MembershipChange[];
  readonly counts: Counts;
}

const stops: (() => Promise<void>)[] = [];
after(() => Promise.all(stops.map((stop) => stop())));

async function freePort(): Promise<number> {
  const socket = createSocket("udp4");
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const { port } = socket.address();
  await new Promise<void>((resolve) => socket.close(() => resolve()));
  return port;
}

async function freeAddresses(count: number): Promise<string[]> {
  const addresses: string[] = [];
  for (let at = 0; at < count; at += 1) addresses.push(`127.0.0.1:${await freePort()}`);
  return addresses;
}

async function boundSocket(address: string): Promise<Socket> {
  const socket = createSocket("udp4");
  stops.push(() => new Promise((resolve) => socket.close(() => resolve())));
  await new Promise<void>((resolve) => socket.bind(Number(address.split(":")[1]), "127.0.0.1", resolve));
  return socket;
}

function member(addresses: readonly string[], at: number, memberClock = clock): Member {
  const counts = new Counts();
  const changes: MembershipChange[] = [];
  const members = addresses.map((address, index) => ({ name: `m${index}`, address }));
  const membership = new UdpMembership({
    members,
    nodeName: `m${at}`,
    listenAddress: addresses[at]!,
    secret: SECRET,
    clock: memberClock,
    random,
    log: silentLog,
    metrics: counts,
  });
  stops.push(() => membership.stop());
  return { membership, changes, counts };
}

const start = ({ membership, changes, ...more }: Member & { readonly newer?: number[] }): Promise<void> =>
  membership.start(
    (change) => void changes.push(change),
    (version) => void more.newer?.push(version),
  );
const lastSelf = ({ changes }: Member): string | undefined => changes.findLast(({ kind }) => kind === "self")?.verdict;
const lastAbout = ({ changes }: Member, about: number): string | undefined =>
  changes.findLast((change) => change.kind === "verdict" && change.member === about)?.verdict;

async function until(isSo: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + 20_000;
  while (!isSo()) {
    assert.ok(performance.now() < endMs, `waited for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

type Version = Pick<ReadList, "version" | "members">;

interface Listed extends Member {
  /** Versions that others named. */
  readonly newer: number[];
  read(list: Version): void;
}

/** A member of a list that changes; it counts by what the test says it has read. */
function listedMember(configured: ReadList["members"], nodeName: string, first: Version): Listed {
  const counts = new Counts();
  const founders = configured.flatMap((one) => one?.name ?? []);
  const { address } = first.members.find((one) => one?.name === nodeName)!;
  const environment = { secret: SECRET, clock, random, log: silentLog };
  const membership = new UdpMembership({ ...environment, members: "listed", nodeName, listenAddress: address, metrics: counts });
  stops.push(() => membership.stop());
  const read = (list: Version): void => membership.listRead({ ...list, founders, readAtMs: performance.now() });
  read(first);
  return { membership, changes: [], counts, newer: [], read };
}

test("[TX32] heartbeats: a third member is added and the second removed: who has not read the list hears of it; all who are in it work", async () => {
  const [a, b, c] = (await freeAddresses(3)).map((address, at) => ({ name: `m${at}`, address }));
  const configured = { version: 0, members: [a, b] };
  const added = { version: 1, members: [a, b, c] };
  const removed = { version: 2, members: [a, undefined, c] };
  const first = listedMember(configured.members, "m0", configured);
  const second = listedMember(configured.members, "m1", configured);
  await Promise.all([start(first), start(second)]);
  // Each second in production. Here whenever the test looks.
  const read = (list: Version, readers: readonly Listed[]): void => readers.forEach((one) => one.read(list));
  const untilRead = (list: Version, readers: readonly Listed[], isSo: () => boolean, what: string): Promise<void> =>
    until(() => (read(list, readers), isSo()), what);
  await untilRead(configured, [first, second], () => [first, second].every((one) => lastSelf(one) === "works"), "two work");
  await untilRead(added, [first], () => second.newer.includes(1), "the second hears of version 1");
  const third = listedMember(configured.members, "m2", added);
  await start(third);
  const all = [first, second, third];
  await untilRead(added, all, () => all.every((one) => lastSelf(one) === "works") && lastAbout(first, 2) === "works", "three work");
  const left = [first, third];
  await second.membership.stop();
  await untilRead(removed, left, () => left.every(({ membership }) => membership.leaseEndMs() > performance.now()), "two have leases");
  await untilRead(removed, left, () => lastSelf(third) === "works" && lastAbout(third, 0) === "works", "both work");
  // An answer that came late: an older list is none.
  read(configured, left);
  await untilRead(removed, left, () => left.every((one) => lastSelf(one) === "works"), "both go on");
});

test("[TX32] heartbeats: the list is not read again: the lease ends", async () => {
  const [a, b] = (await freeAddresses(2)).map((address, at) => ({ name: `m${at}`, address }));
  const list = { version: 3, members: [a, b] };
  const both = ["m0", "m1"].map((name) => listedMember(list.members, name, list));
  await Promise.all(both.map(start));
  await until(() => both.every((one) => lastSelf(one) === "works"), "both work");
  await until(() => lastSelf(both[0]!) === "lost" && both[0]!.membership.leaseEndMs() < performance.now(), "the list is too old");
  both[0]!.read(list);
  both[1]!.read(list);
  await until(() => both.every((one) => lastSelf(one) === "works"), "both work again");
});

test("[TX13, TX14] heartbeats: three members on loopback: all work; one stops: gone at both others, whose leases go on", async () => {
  const addresses = await freeAddresses(3);
  const all = addresses.map((_, at) => member(addresses, at));
  await Promise.all(all.map(start));
  await until(() => all.every((one) => lastSelf(one) === "works"), "all work");
  await all[2]!.membership.stop();
  await until(() => all.slice(0, 2).every((one) => lastAbout(one, 2) === "gone"), "the stopped one is gone");
  await until(() => all.slice(0, 2).every(({ membership }) => membership.leaseEndMs() > performance.now()), "the others have leases");
  assert.ok(all[2]!.membership.leaseEndMs() < performance.now());
});

test("[TX13] heartbeats: a main loop that stands still: beats go on, the lease ends, the other calls it stuck and not gone", async () => {
  const addresses = await freeAddresses(2);
  const sound = member(addresses, 0);
  // The main loop's progress is a timer of this member's clock: without it the loop stands still.
  const stuck = member(addresses, 1, { ...clock, setTimer: () => ({ cancel: () => undefined }) });
  await start(sound);
  await start(stuck);
  await until(() => lastAbout(sound, 1) === "stuck", "it is stuck");
  assert.ok(stuck.membership.leaseEndMs() < performance.now());
  await until(() => lastSelf(stuck) === "lost", "it knows");
  assert.ok(!sound.changes.some((change) => change.kind === "verdict" && change.verdict === "gone"));
});

test("heartbeats: the port is taken: the start is rejected and names it", async () => {
  const [taken, other] = await freeAddresses(2);
  await boundSocket(taken!);
  await assert.rejects(start(member([taken!, other!], 0)), new RegExp(`UDP ${taken}`));
});

test("[TX13] heartbeats: foreign, malformed and replayed datagrams: refused and counted, no verdict changes", async () => {
  const addresses = await freeAddresses(2);
  const [port] = addresses.map((address) => Number(address.split(":")[1]));
  const observer = member(addresses, 0);
  await start(observer);
  // The other member is this socket: what it records of the first life it plays back to the second.
  const socket = await boundSocket(addresses[1]!);
  const recorded = await nextMessage(socket);
  const { seal, open } = sealWith(SECRET);
  const payload = Buffer.from(open(recorded)!);
  const sender = 5;
  payload[sender] = 1;
  const foreign = [
    randomBytes(recorded.length),
    recorded.subarray(0, 20),
    sealWith("another").seal(payload),
    Buffer.alloc(SEAL_BYTES),
    Buffer.alloc(0),
  ];
  const malformed = [seal(payload.subarray(1)), seal(randomBytes(payload.length)), seal(Buffer.from([1]))];
  const replayed = Array.from({ length: 20 }, () => seal(payload));
  for (const datagram of [...foreign, ...malformed, ...replayed, recorded]) socket.send(datagram, port!, "127.0.0.1");
  await until(
    () => observer.counts.of("heartbeats_received_total") >= foreign.length + malformed.length + replayed.length + 1,
    "all arrived",
  );
  assert.equal(observer.counts.of("heartbeats_refused_total foreign"), foreign.length);
  assert.equal(observer.counts.of("heartbeats_refused_total malformed"), malformed.length);
  assert.equal(lastAbout(observer, 1), undefined);
  assert.equal(lastSelf(observer), undefined);
});

function nextMessage(socket: Socket): Promise<Buffer> {
  return new Promise((resolve) => socket.once("message", resolve));
}

interface Blocked extends Member {
  readonly host: SharedHost;
}

/** Members whose UDP ports are others than their addresses say: no datagram gets through; gRPC does. */
async function blockedMembers(count: number): Promise<Blocked[]> {
  const [addresses, udpAddresses] = [await freeAddresses(count), await freeAddresses(count)];
  const transport = grpcTransport({ clock, log: silentLog, metrics: silentMetrics });
  const members = addresses.map((address, at) => ({ name: `m${at}`, address }));
  const environment = { secret: SECRET, clock, random, log: silentLog };
  return Promise.all(
    members.map(async ({ name, address }, at) => {
      const counts = new Counts();
      const fallback = { transport, authenticator: tokenAuthenticator([{ role: "client", token: "t" }]), token: "t" };
      const options = { ...environment, members, nodeName: name, listenAddress: udpAddresses[at]!, metrics: counts, fallback };
      const membership = new UdpMembership(options);
      const host = await startSharedHost({
        transport,
        clock,
        log: silentLog,
        metrics: counts,
        authenticator: fallback.authenticator,
        address,
        services: membership.services,
      });
      stops.push(() => membership.stop().then(() => host.close(0)));
      return { membership, counts, host, changes: [] };
    }),
  );
}

test("[TX13] heartbeats: no datagram gets through: members work over gRPC; one that stops is gone at the others", async () => {
  const all = await blockedMembers(3);
  await Promise.all(all.map(start));
  await until(() => all.every((one) => lastSelf(one) === "works"), "all work");
  await until(() => all.every(({ counts }) => counts.of("heartbeats_streamed_total") > 0), "they beat over gRPC");
  await all[2]!.membership.stop();
  await all[2]!.host.close(0);
  await until(() => all.slice(0, 2).every((one) => lastAbout(one, 2) === "gone"), "the stopped one is gone");
  // A busy machine delays beats of the main loop, and a lease ends for a moment.
  await until(() => all.slice(0, 2).every((one) => lastSelf(one) === "works"), "the others work");
});

test("[TX13] heartbeats over gRPC: what no member sealed changes nothing; too many or too long ones are refused", async () => {
  const [one] = await blockedMembers(1);
  const { membership, counts, host } = one!;
  await start(one!);
  const transport = grpcTransport({ clock, log: silentLog, metrics: silentMetrics });
  const channel = transport.connect(host.address);
  const deliver = (datagrams: Uint8Array[]): Promise<object> =>
    callUnary(channel, HeartbeatService.methods.Deliver, { datagrams, hearsNoUdp: true }, { timeoutMs: 5_000, metadata: bearer("t") });
  const [changes, leaseEndMs] = [one!.changes.length, membership.leaseEndMs()];
  await deliver([new Uint8Array(200), new Uint8Array(3)]);
  await until(() => counts.of("heartbeats_refused_total foreign") === 2, "both are refused");
  await assert.rejects(deliver(Array.from({ length: 17 }, () => new Uint8Array(1))), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(deliver([new Uint8Array(2_000)]), { code: "LIMIT_EXCEEDED" });
  // A flood: at most 512 in 100 ms reach the thread, the others are lost.
  const flood = Array.from({ length: 16 }, () => new Uint8Array(3));
  await Promise.all(Array.from({ length: 64 }, () => deliver(flood)));
  await until(() => counts.of("heartbeats_refused_total foreign") > 400, "many are refused");
  assert.equal(one!.changes.length, changes);
  assert.equal(membership.leaseEndMs(), leaseEndMs);
  channel.close();
});
