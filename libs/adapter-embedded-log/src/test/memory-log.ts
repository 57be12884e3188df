import { crc32 } from "node:zlib";
import type { Clock, Disk, Random } from "@concord/runtime";
import { diskOver, type MemoryDisk } from "@concord/port-contracts";
import type { LogTopic, MessageLog, NewMessage, Publication } from "@concord/ports";
import { openEmbeddedLog, type EmbeddedLogOptions } from "../index.ts";

/** Time that a test moves. */
export class TestClock implements Clock {
  ms = 1_000_000;
  nowMs = (): number => this.ms;
  nowUs = (): bigint => BigInt(this.ms) * 1000n;
  monotonicMs = (): number => this.ms;
  setTimer(): never {
    throw new Error("the log sets no timers");
  }
  defer(): never {
    throw new Error("the log defers nothing");
  }
}

let drawn = 0;
export const random: Random = {
  bytes: (length) => {
    drawn += 1;
    return Uint8Array.from({ length }, (_, at) => (drawn * 37 + at * 11) & 255);
  },
  below: () => 0,
  float: () => 0,
};

export function openOn(disk: Disk, more: Partial<EmbeddedLogOptions> = {}): Promise<MessageLog> {
  const base = { disk, folder: "log", partitions: 2, clock: new TestClock(), random };
  return openEmbeddedLog({ ...base, checksum: (bytes, previous) => crc32(bytes, previous), ...more });
}

export function message(value: string): NewMessage {
  return { key: new Uint8Array(), value: new TextEncoder().encode(value), headers: [], timestampMs: 7 };
}

export function publication(change: Partial<Publication>): Publication {
  return { output: [], deadLetters: [], rerouted: [], acknowledgedInput: 0n, ...change };
}

export async function valuesOf(log: MessageLog, topic: LogTopic, partition = 0): Promise<string[]> {
  let { start: next } = await log.bounds(topic, partition);
  const found: string[] = [];
  for (;;) {
    const page = await log.read(topic, partition, next, { messages: 3, bytes: 1_000 });
    if (page.messages.length === 0) return found;
    found.push(...page.messages.map(({ value }) => new TextDecoder().decode(value)));
    next = page.next;
  }
}

/** The disk as one process has it: once that is dead nothing of it reaches the disk, and nothing answers it. */
export function processOn(disk: MemoryDisk): { readonly disk: Disk; readonly die: () => void } {
  let isDead = false;
  const process = diskOver(disk.files, async (_, act) => {
    await Promise.resolve();
    return isDead ? await new Promise(() => undefined) : act();
  });
  return { disk: process, die: () => (isDead = true) };
}

/** Lets everything that needs no time happen. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 2_000; turn += 1) await Promise.resolve();
}
