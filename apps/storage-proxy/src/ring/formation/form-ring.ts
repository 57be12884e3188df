import type { PeerSession } from "@concord/adapter-ring";
import type { HelloResponse } from "@concord/protos-storage";
import { rejoinGroup, type RejoinOptions } from "@concord/group-log";
import type { KeyValue } from "@concord/ports";
import { ConcordError, sleep, toConcordError, type Checksum, type Clock, type Log } from "@concord/runtime";
import { FORMATION_CALL_TIMEOUT_MS, FORMATION_LOG_INTERVAL_MS, FORMATION_RETRY_MS } from "../limits.ts";
import { copyStore, readGroups, type CopyOptions } from "./copy-store.ts";
import { allRowsPresent, peerKnown, readMarker, writeMarker } from "./marker.ts";

export interface FormationOptions {
  readonly store: KeyValue;
  readonly peers: readonly PeerSession[];
  /** Names of all nodes of the ring, sorted. */
  readonly members: readonly string[];
  readonly clock: Clock;
  readonly checksum: Checksum;
  readonly log: Log;
  /** No write of an earlier life of this node is still under way after this time. */
  readonly settleMs: number;
  /** Shows an operator what the start is about, in /readyz and the log. */
  readonly doing?: (text: string) => void;
  /** Aborted when the node is stopped meanwhile. */
  readonly signal: AbortSignal;
}

/**
 * Makes the store part of its ring (TXR4), the decision table of the README: a store that was joining finishes; an empty one joins when no
 * peer knows this node, else it was lost and is copied from both peers first. `formed`: it was part of the ring before; `lagging`: and its
 * peers dropped what it lacks, see `copyLagging`. Throws INTERNAL when the members differ: the node must not start.
 */
export async function formRing(options: FormationOptions): Promise<"joined" | "formed" | "lagging"> {
  const { store, checksum, members, log } = options;
  const marker = await readMarker(store, checksum);
  if (marker.kind !== "empty" && !sameMembers(marker.members, members)) throw refuse("this node's own store", marker.members, members);
  if (marker.kind === "formed") await greetOnce(options);
  if (marker.kind === "formed" || marker.kind === "lagging") return marker.kind;
  if (marker.kind === "empty") {
    const hellos = await greetAll(options, false);
    if (hellos.some((hello) => hello.knowsCaller)) {
      log.warn("this node was part of the ring and its store is empty: copying from both peers", { peers: options.peers.length });
      await restoreFromPeers(options, { logs: "lost", rows: "lost" });
      // Both serve, so both are part of the ring: we remember them as our lost store did, for the day they lose theirs (I2).
      await store.batch(
        options.peers.map((peer) => peerKnown(peer.name)),
        { sync: true },
      );
    }
    await store.batch([allRowsPresent()], { sync: true });
    await writeMarker(store, { kind: "joining", members }, checksum);
  }
  // Both peers remember us before we serve: if we lose the store, one of them says so (I2).
  await greetAll(options, true);
  await writeMarker(store, { kind: "formed", members }, checksum);
  log.info("part of the ring", { members: members.join(",") });
  return "joined";
}

/**
 * Copies the store from both peers before the node serves, which may be doing the same. Its logs are sound and may hold what one peer only
 * has: they stay until the copy of their group replaces them.
 */
export async function copyLagging(options: FormationOptions, rows: CopyOptions["rows"]): Promise<void> {
  const { store, members, checksum } = options;
  await greetAll(options, true);
  await restoreFromPeers(options, { logs: "own", rows });
  await store.batch([allRowsPresent()], { sync: true });
  await writeMarker(store, { kind: "formed", members }, checksum);
}

/**
 * Catches every group up from both peers, after the store cut off what it may have acknowledged (I10 of the group-log README). Both are
 * introduced to its new incarnation first. False: a peer dropped what is lacking, the store must be copied.
 */
export async function rejoinRing(options: FormationOptions, own: RejoinOptions): Promise<boolean> {
  const { clock, log, signal } = options;
  log.warn("the store may lack what this node acknowledged last: catching up from both peers before it votes", {});
  await greetAll(options, true);
  for (;;) {
    stopIfAborted(signal);
    try {
      const groups = await readGroups(options);
      let compared = 0;
      for (const group of groups) {
        options.doing?.(`comparing the log of group ${group} with both peers, ${compared} of ${groups.size} compared`);
        if ((await rejoinGroup(own, group)) === "too-far") return false;
        compared += 1;
      }
      log.info("caught up from both peers", { groups: groups.size });
      return true;
    } catch (thrown) {
      const reason = toConcordError(thrown).message;
      options.doing?.(`comparing the logs with the peers failed, trying again: ${reason}`);
      log.warn("catching up from the peers failed; trying again", { reason });
      await sleep(clock, FORMATION_RETRY_MS, signal);
    }
  }
}

/** A formed node starts without its peers; but not into another ring, nor into one of another version. */
async function greetOnce(options: FormationOptions): Promise<void> {
  const hellos = new Map<string, HelloResponse>();
  await Promise.all(options.peers.map((peer) => greet(peer, true, options.members, hellos)));
}

async function restoreFromPeers(options: FormationOptions, own: Pick<CopyOptions, "logs" | "rows">): Promise<void> {
  // What a peer acknowledged together with our earlier life is on its disk by now.
  options.doing?.(`copying the store begins once writes of this node's earlier life have ended, after ${options.settleMs} ms`);
  await sleep(options.clock, options.settleMs, options.signal);
  for (;;) {
    stopIfAborted(options.signal);
    try {
      await copyStore({ ...options, ...own });
      return;
    } catch (thrown) {
      const reason = toConcordError(thrown).message;
      options.doing?.(`copying the store failed, trying again: ${reason}`);
      options.log.warn("copying from the peers failed; trying again", { reason });
      await sleep(options.clock, FORMATION_RETRY_MS, options.signal);
    }
  }
}

/** Answers of all peers; waits for them as long as it takes, with a line in the log. */
async function greetAll(options: FormationOptions, formed: boolean): Promise<HelloResponse[]> {
  const { clock, log } = options;
  const hellos = new Map<string, HelloResponse>();
  let lastLogMs = -Infinity;
  for (;;) {
    stopIfAborted(options.signal);
    const missing = options.peers.filter((peer) => !hellos.has(peer.name));
    await Promise.all(missing.map((peer) => greet(peer, formed, options.members, hellos)));
    const silent = options.peers.filter((peer) => !hellos.has(peer.name)).map((peer) => peer.name);
    if (silent.length === 0) return [...hellos.values()];
    options.doing?.(`no answer from ${silent.join(", ")}`);
    if (clock.monotonicMs() - lastLogMs >= FORMATION_LOG_INTERVAL_MS) {
      log.info("waiting for peers to form the ring", { peers: silent.join(",") });
      lastLogMs = clock.monotonicMs();
    }
    await sleep(clock, FORMATION_RETRY_MS, options.signal);
  }
}

async function greet(peer: PeerSession, formed: boolean, members: readonly string[], hellos: Map<string, HelloResponse>): Promise<void> {
  let hello: HelloResponse;
  try {
    hello = await peer.hello(FORMATION_CALL_TIMEOUT_MS, formed);
  } catch (thrown) {
    const error = toConcordError(thrown);
    if (error.code === "UNAUTHENTICATED" || error.code === "PERMISSION_DENIED") throw thrown;
    return;
  }
  checkMembers(hello, members);
  hellos.set(peer.name, hello);
}

function checkMembers(hello: HelloResponse, members: readonly string[]): void {
  if (!sameMembers(hello.members, members)) throw refuse(`node ${hello.node}`, hello.members, members);
}

function refuse(who: string, theirs: readonly string[], ours: readonly string[]): ConcordError {
  const text = `${who} belongs to the ring [${theirs.join(", ")}], this node is configured for [${ours.join(", ")}]; a ring's members never change`;
  return new ConcordError("INTERNAL", text, { applied: "no" });
}

function sameMembers(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((name, at) => right[at] === name);
}

function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new ConcordError("CANCELLED", "the node is stopped before its ring was formed", { applied: "no" });
}
