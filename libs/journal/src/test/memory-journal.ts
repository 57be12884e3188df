import { crc32 } from "node:zlib";
import { ConcordError, type Checksum, type Disk, type Random } from "@concord/runtime";
import { diskOver, MemoryDisk } from "@concord/port-contracts";
import { openJournal, type Journal, type JournalFindings, type JournalLimits, type JournalOptions, type JournalRecord } from "../index.ts";

export const checksum: Checksum = (bytes, previous) => crc32(bytes, previous);

/** Bytes that differ from call to call and not from run to run. */
export function countingRandom(): Random {
  let calls = 0;
  return {
    bytes: (length) => {
      calls += 1;
      return Uint8Array.from({ length }, (_, at) => (calls * 37 + at * 11) & 255);
    },
    below: () => 0,
    float: () => 0,
  };
}

const random = countingRandom();

export function optionsOn(disk: MemoryDisk, more: Partial<JournalOptions> = {}): JournalOptions {
  return { disk, folder: "journal", checksum, random, ...more };
}

export async function openOn(disk: MemoryDisk, more: Partial<JournalOptions> = {}): Promise<Journal> {
  return (await openJournal(optionsOn(disk, more))).journal;
}

export async function findingsOn(disk: MemoryDisk, more: Partial<JournalOptions> = {}): Promise<JournalFindings> {
  return (await openJournal(optionsOn(disk, more))).findings;
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

/** Several segments after a few records. */
export const SMALL: Partial<JournalLimits> = { segmentBytes: 200 };

export const text = (value: string): Uint8Array => new TextEncoder().encode(value);

export async function collect(records: AsyncIterable<JournalRecord>): Promise<string[]> {
  const found: string[] = [];
  for await (const { sequence, payload, count, kind } of records) {
    const units = count === 1 ? "" : `x${count}`;
    found.push(`${sequence}${units}${kind === "checkpoint" ? "!" : ":"}${new TextDecoder().decode(payload)}`);
  }
  return found;
}

export const everything = (journal: Journal): Promise<string[]> => collect(journal.read(journal.firstSequence));

export function segmentPaths(disk: MemoryDisk): string[] {
  return [...disk.files.contents().keys()].filter((path) => path.endsWith(".journal"));
}

/** Changes a file behind the journal's back, as a rotting disk does. */
export async function rot(disk: MemoryDisk, path: string, change: (bytes: Uint8Array) => Uint8Array): Promise<void> {
  const file = await disk.open(path);
  if (file === undefined) throw new ConcordError("INTERNAL", `${path} is absent`);
  const bytes = change(await file.read(0, file.size));
  await file.truncate(bytes.length);
  await file.write(0, [bytes]);
  await file.sync();
}

export function flip(at: number, bit = 0): (bytes: Uint8Array) => Uint8Array {
  return (bytes) => {
    bytes[at]! ^= 1 << bit;
    return bytes;
  };
}
