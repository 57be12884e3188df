import { unreachable } from "@concord/runtime";
import type { Fault } from "./fault-plan.ts";
import type { SimDisk } from "./disk.ts";
import type { CrashMode } from "./files.ts";
import type { PauseMode } from "./incarnation.ts";
import type { SimNetwork } from "./network.ts";

/** The world as faults change it. */
export interface FaultyWorld {
  readonly network: SimNetwork;
  readonly nowMs: number;
  readonly isHealed: boolean;
  at(atMs: number, action: () => void): void;
  isUp(node: string): boolean;
  start(node: string): void;
  crash(node: string, mode: CrashMode): void;
  rot(node: string): void;
  pause(node: string): void;
  resume(node: string): void;
  replace(node: string): { readonly wake: () => void; readonly end: () => void };
  stepClock(node: string, byMs: number): void;
  disk(node: string): SimDisk;
  disksOf(node: string): readonly SimDisk[];
  armFailpoint(node: string, point: string | undefined, mode: CrashMode | PauseMode, forMs: number, skip?: number): void;
}

/** Does to the world what the fault says, and arranges its end. */
export function injectFault(world: FaultyWorld, fault: Fault): void {
  const { links } = world.network;
  const later = (delayMs: number, action: () => void): void => world.at(world.nowMs + delayMs, action);
  switch (fault.kind) {
    case "partition":
      partition(world, fault.left, fault.right, fault.oneWay, fault.forMs);
      return;
    case "drop":
      links.dropRate = fault.rate;
      later(fault.forMs, () => (links.dropRate = 0));
      return;
    case "slow-link":
      links.slow(fault.from, fault.to, fault.factor);
      later(fault.forMs, () => links.slow(fault.from, fault.to, 1));
      return;
    case "break":
      world.network.breakBetween(fault.left, fault.right);
      return;
    case "crash":
      world.crash(fault.node, fault.mode);
      later(fault.forMs, () => world.start(fault.node));
      return;
    case "blackout":
      blackout(world, fault);
      return;
    case "lost-disk":
      world.crash(fault.node, "power");
      world.disk(fault.node).wipe();
      later(fault.forMs, () => world.start(fault.node));
      return;
    case "crash-at-point":
      world.armFailpoint(fault.node, fault.point, fault.mode, fault.forMs, fault.skip);
      return;
    case "pause-at-point":
      world.armFailpoint(fault.node, fault.point, fault.mode ?? "pause", fault.forMs, fault.skip);
      return;
    case "pause":
      world.pause(fault.node);
      later(fault.forMs, () => world.resume(fault.node));
      return;
    case "replace":
      replace(world, fault.node, fault.forMs, fault.zombieMs);
      return;
    case "clock-step":
      world.stepClock(fault.node, fault.byMs);
      if (fault.forMs !== undefined) later(fault.forMs, () => world.stepClock(fault.node, -fault.byMs));
      return;
    case "datagram-loss":
      loseDatagrams(world, fault.from, fault.to, fault.forMs);
      return;
    case "sync-failure":
      for (const disk of world.disksOf(fault.node)) disk.failNextSync = true;
      later(fault.afterMs, () => world.crash(fault.node, "power"));
      later(fault.afterMs + fault.forMs, () => world.start(fault.node));
      return;
    case "slow-disk":
      for (const disk of world.disksOf(fault.node)) disk.slowness = fault.factor;
      later(fault.forMs, () => world.disksOf(fault.node).forEach((disk) => (disk.slowness = 1)));
      return;
    default:
      unreachable(fault);
  }
}

function blackout(world: FaultyWorld, { nodes, rotten, late, lateMs = 0, forMs }: Extract<Fault, { kind: "blackout" }>): void {
  for (const node of nodes) world.crash(node, "power");
  if (rotten !== undefined) world.rot(rotten);
  for (const node of nodes) world.at(world.nowMs + forMs + (node === late ? lateMs : 0), () => world.start(node));
}

function partition(world: FaultyWorld, left: readonly string[], right: readonly string[], oneWay: boolean, forMs: number): void {
  const pairs = left.flatMap((from) => right.map((to) => [from, to] as const));
  const links = oneWay ? pairs : [...pairs, ...pairs.map(([from, to]) => [to, from] as const)];
  for (const [from, to] of links) world.network.block(from, to);
  world.at(world.nowMs + forMs, () => {
    if (world.isHealed) return;
    for (const [from, to] of links) world.network.unblock(from, to);
  });
}

function loseDatagrams(world: FaultyWorld, from: readonly string[], to: readonly string[], forMs: number): void {
  const { datagrams } = world.network;
  const links = from.flatMap((left) => to.map((right) => [left, right] as const));
  for (const [left, right] of links) datagrams.block(left, right);
  world.at(world.nowMs + forMs, () => {
    if (world.isHealed) return;
    for (const [left, right] of links) datagrams.unblock(left, right);
  });
}

function replace(world: FaultyWorld, node: string, forMs: number, zombieMs: number): void {
  if (!world.isUp(node)) return;
  const zombie = world.replace(node);
  world.at(world.nowMs + forMs, zombie.wake);
  world.at(world.nowMs + forMs + zombieMs, zombie.end);
}
