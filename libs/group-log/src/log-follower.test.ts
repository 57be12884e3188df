import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogPosition } from "@concord/ports";
import { ConcordError, seqOf, silentLog, type Seq } from "@concord/runtime";
import { LogFollower, type FollowedPeer } from "./log-follower.ts";
import { VirtualTime } from "./test/virtual-time.ts";

const signal = new AbortController().signal;

/** A replica and two peers that have applied what the test writes into them. */
class Replicas {
  readonly own = new Map<string, Seq>();
  readonly peers = [new Map<string, Seq>(), new Map<string, Seq>()] as const;
  readonly away = new Set<number>();
  readonly broken = new Set<number>();
  readonly caughtUp: string[] = [];
  readonly follower = new LogFollower({
    own: {
      logCatchUp: async (group, seq) => {
        this.caughtUp.push(`${group} ${seq}`);
        if (group === "stuck") throw new ConcordError("REPLICAS_UNAVAILABLE", "not there yet");
        this.own.set(group, seq);
      },
    },
    appliedSeq: (group) => this.own.get(group) ?? seqOf(0n),
    peers: this.peers.map((positions, at): FollowedPeer => {
      return { name: `peer-${at}`, isReachable: () => !this.away.has(at), applied: () => this.#applied(at, positions) };
    }),
    clock: new VirtualTime(),
    log: silentLog,
  });

  async looks(count: number): Promise<readonly string[]> {
    this.caughtUp.length = 0;
    for (let look = 0; look < count; look += 1) await this.follower.look(signal);
    return [...this.caughtUp];
  }

  async #applied(at: number, positions: ReadonlyMap<string, Seq>): Promise<readonly LogPosition[]> {
    assert.ok(!this.away.has(at), "a peer that is away is not asked");
    if (this.broken.has(at)) throw new ConcordError("CONNECTION_LOST", "no answer");
    return Array.from(positions, ([group, seq]) => ({ group, seq }));
  }
}

test("follower: a group is idle and a peer has applied more, in one group of which nothing is held here: caught up at the second look, up to the newest", async () => {
  const replicas = new Replicas();
  replicas.own.set("albums", seqOf(3n));
  replicas.peers[0].set("albums", seqOf(7n)).set("new", seqOf(2n));
  replicas.peers[1].set("albums", seqOf(9n));
  assert.deepEqual(await replicas.looks(1), []);
  assert.deepEqual(await replicas.looks(1), ["albums 9", "new 2"]);
  assert.deepEqual(await replicas.looks(2), []);
});

test("follower: entries arrive by appends all the time, a little later than at a peer: nothing is fetched", async () => {
  const replicas = new Replicas();
  for (let seq = 1n; seq < 10n; seq += 1n) {
    replicas.peers[0].set("albums", seqOf(seq + 1n));
    assert.deepEqual(await replicas.looks(1), []);
    replicas.own.set("albums", seqOf(seq + 1n));
  }
});

test("follower: one peer is away, the other does not answer, a group cannot be caught up: the others are, and all at a later look", async () => {
  const replicas = new Replicas();
  replicas.peers[0].set("stuck", seqOf(1n)).set("albums", seqOf(4n));
  replicas.peers[1].set("photos", seqOf(5n));
  replicas.away.add(1);
  replicas.broken.add(0);
  assert.deepEqual(await replicas.looks(2), []);
  replicas.broken.delete(0);
  assert.deepEqual(await replicas.looks(2), ["stuck 1", "albums 4"]);
  replicas.away.delete(1);
  assert.deepEqual(await replicas.looks(2), ["stuck 1", "stuck 1", "photos 5"]);
});
