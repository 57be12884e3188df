import type { Disk, DiskFile } from "@concord/runtime";
import { expectCode, expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

/** A disk whose root is there and empty. */
export interface DiskSubject {
  readonly disk: Disk;
}

/** A disk that tests can hurt: the references and the simulator's, not a real machine's. */
export interface CrashableDiskSubject extends DiskSubject {
  /** A power cut that loses whatever it may. Answers the disk after it. */
  crash(): Promise<Disk>;
  failNextSync(): void;
  /** From now on this many more bytes fit. */
  leaveRoom(bytes: number): void;
}

type Case = ContractCase<DiskSubject>;
type CrashCase = ContractCase<CrashableDiskSubject>;

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const NAMES_MANY = 300;

export async function makeFile(disk: Disk, path: string, content: Uint8Array = bytes()): Promise<DiskFile> {
  const file = await disk.create(path);
  if (file === "exists") throw new Error(`${path} exists`);
  await file.write(0, [content]);
  return file;
}

/** A file's bytes as a fresh handle finds them; undefined when there is no file. */
export async function contentOf(disk: Disk, path: string): Promise<Uint8Array | undefined> {
  const file = await disk.open(path);
  if (file === undefined) return undefined;
  const content = await file.read(0, file.size + 1);
  await file.close();
  return content;
}

async function namesIn(disk: Disk, folder: string): Promise<string[]> {
  return (await disk.list(folder)).map(({ name, kind }) => `${kind} ${name}`);
}

/** Remembers the files it gives out: a case leaves none open. */
function keepingTrack(disk: Disk, given: DiskFile[]): Disk {
  return {
    create: async (path) => {
      const made = await disk.create(path);
      if (made !== "exists") given.push(made);
      return made;
    },
    open: async (path) => {
      const found = await disk.open(path);
      if (found !== undefined) given.push(found);
      return found;
    },
    list: (folder) => disk.list(folder),
    makeFolder: (folder) => disk.makeFolder(folder),
    syncFolder: (folder) => disk.syncFolder(folder),
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    freeBytes: () => disk.freeBytes(),
  };
}

async function closing(run: (given: DiskFile[]) => Promise<void>): Promise<void> {
  const given: DiskFile[] = [];
  try {
    await run(given);
  } finally {
    for (const file of given) await file.close();
  }
}

function simple(name: string, run: (disk: Disk) => Promise<void>): Case {
  return { name, run: (open) => closing(async (given) => run(keepingTrack((await open()).disk, given))) };
}

const NAME_CASES: readonly Case[] = [
  simple("create: new name: an empty file", async (disk) => {
    const file = await makeFile(disk, "a");
    expectEqual(file.size, 0, "size");
    expectEqual(await contentOf(disk, "a"), bytes(), "content");
  }),
  simple("create: a file or folder has the name: exists, nothing changed", async (disk) => {
    await makeFile(disk, "a", bytes(1, 2));
    await disk.makeFolder("f");
    expectEqual(await disk.create("a"), "exists", "file");
    expectEqual(await disk.create("f"), "exists", "folder");
    expectEqual(await contentOf(disk, "a"), bytes(1, 2), "content");
  }),
  simple("create: two racing: one makes it", async (disk) => {
    const made = await Promise.all([disk.create("a"), disk.create("a"), disk.create("a")]);
    expectEqual(made.filter((answer) => answer !== "exists").length, 1, "makers");
  }),
  simple("create: folder absent: STORE_FAILED", (disk) => expectCode(() => disk.create("f/a"), "STORE_FAILED", "create")),
  simple("open: absent name, absent folder, a folder: undefined", async (disk) => {
    await disk.makeFolder("f");
    expectEqual(await disk.open("a"), undefined, "file");
    expectEqual(await disk.open("g/a"), undefined, "in a folder");
    expectEqual(await disk.open("f"), undefined, "folder");
  }),
  simple("list: files and folders: sorted, of this folder only", async (disk) => {
    await disk.makeFolder("f/g");
    for (const path of ["f/b", "f/a", "f/g/c", "d"]) await makeFile(disk, path);
    expectEqual(await namesIn(disk, "f"), ["file a", "file b", "folder g"], "f");
    expectEqual(await namesIn(disk, ""), ["file d", "folder f"], "root");
  }),
  simple("list: many: all of them, sorted", async (disk) => {
    await disk.makeFolder("f");
    const names = Array.from({ length: NAMES_MANY }, (_, at) => String((at * 7919) % 100_000).padStart(5, "0"));
    for (const name of names) await (await makeFile(disk, `f/${name}`)).close();
    expectEqual(
      (await disk.list("f")).map(({ name }) => name),
      names.sort((left, right) => (left < right ? -1 : 1)),
      "names",
    );
  }),
  simple("list: absent folder: empty", async (disk) => expectEqual(await disk.list("f"), [], "names")),
  simple("makeFolder: made already, and those above it: harmless", async (disk) => {
    await disk.makeFolder("f/g/h");
    await disk.makeFolder("f/g/h");
    await disk.makeFolder("f");
    expectEqual(await namesIn(disk, "f/g"), ["folder h"], "names");
  }),
  simple("rename: a file of the new name: replaced; open files go on", async (disk) => {
    const moved = await makeFile(disk, "a", bytes(1));
    const replaced = await makeFile(disk, "b", bytes(2));
    expectEqual(await disk.rename("a", "b"), true, "rename");
    expectEqual(await namesIn(disk, ""), ["file b"], "names");
    await moved.write(1, [bytes(3)]);
    expectEqual(await contentOf(disk, "b"), bytes(1, 3), "content");
    expectEqual(await replaced.read(0, 9), bytes(2), "the replaced file");
  }),
  simple("rename: to another folder: moved", async (disk) => {
    await disk.makeFolder("f");
    await makeFile(disk, "a", bytes(1));
    expectEqual(await disk.rename("a", "f/b"), true, "rename");
    expectEqual(await contentOf(disk, "a"), undefined, "old");
    expectEqual(await contentOf(disk, "f/b"), bytes(1), "new");
  }),
  simple("rename: absent: false, the new name keeps its file", async (disk) => {
    await makeFile(disk, "b", bytes(2));
    expectEqual(await disk.rename("a", "b"), false, "rename");
    expectEqual(await contentOf(disk, "b"), bytes(2), "content");
  }),
  simple("remove: a file: gone, open ones can be read on; again: false", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2));
    expectEqual(await disk.remove("a"), true, "first");
    expectEqual(await disk.remove("a"), false, "second");
    expectEqual(await disk.open("a"), undefined, "open");
    expectEqual(await file.read(0, 9), bytes(1, 2), "content");
  }),
  simple("remove: an empty folder: gone; a full one: STORE_FAILED", async (disk) => {
    await disk.makeFolder("f");
    await makeFile(disk, "f/a");
    await expectCode(() => disk.remove("f"), "STORE_FAILED", "full");
    await disk.remove("f/a");
    expectEqual(await disk.remove("f"), true, "empty");
    expectEqual(await namesIn(disk, ""), [], "names");
  }),
  simple("names: composed and decomposed Unicode, 255 bytes: files of their own", async (disk) => {
    const names = ["\u00e9", "e\u0301", "\u{1f4f7}", "n".repeat(255)];
    for (const [at, name] of names.entries()) await makeFile(disk, name, bytes(at));
    for (const [at, name] of names.entries()) expectEqual(await contentOf(disk, name), bytes(at), name);
    expectEqual((await disk.list("")).map(({ name }) => name).toSorted(), names.toSorted(), "names");
  }),
  simple("names: the same in two folders and above them: files of their own", async (disk) => {
    await disk.makeFolder("f/g/h/i/j/k");
    for (const [at, path] of ["a", "f/a", "f/g/h/i/j/k/a"].entries()) await makeFile(disk, path, bytes(at));
    expectEqual(await disk.remove("f/a"), true, "remove");
    expectEqual([await contentOf(disk, "a"), await contentOf(disk, "f/g/h/i/j/k/a")], [bytes(0), bytes(2)], "the others");
  }),
  simple("create: after a remove: a new file; who has the old one open reads that", async (disk) => {
    const old = await makeFile(disk, "a", bytes(1, 2));
    await disk.remove("a");
    const fresh = await makeFile(disk, "a", bytes(3));
    await old.write(0, [bytes(9)]);
    expectEqual([fresh.size, await contentOf(disk, "a"), await old.read(0, 9)], [1, bytes(3), bytes(9, 2)], "old and new");
  }),
  simple("makeFolder: two racing: both resolve", async (disk) => {
    await Promise.all([disk.makeFolder("f/g"), disk.makeFolder("f/g"), disk.makeFolder("f/h")]);
    expectEqual(await namesIn(disk, "f"), ["folder g", "folder h"], "names");
  }),
  simple("makeFolder: a file has the name, or stands above it: STORE_FAILED, the file stays", async (disk) => {
    await makeFile(disk, "a", bytes(1));
    await expectCode(() => disk.makeFolder("a"), "STORE_FAILED", "the name");
    await expectCode(() => disk.makeFolder("a/b"), "STORE_FAILED", "above");
    expectEqual(await contentOf(disk, "a"), bytes(1), "content");
  }),
  simple("rename: onto itself: there, as it was", async (disk) => {
    await makeFile(disk, "a", bytes(1));
    expectEqual(await disk.rename("a", "a"), true, "rename");
    expectEqual(await contentOf(disk, "a"), bytes(1), "content");
  }),
  simple("rename: to an absent folder: STORE_FAILED, the old name stays", async (disk) => {
    await makeFile(disk, "a", bytes(1));
    await expectCode(() => disk.rename("a", "f/a"), "STORE_FAILED", "rename");
    expectEqual(await contentOf(disk, "a"), bytes(1), "content");
  }),
  simple("rename: two racing for one file: one moves it", async (disk) => {
    await makeFile(disk, "a", bytes(1));
    const moved = await Promise.all([disk.rename("a", "b"), disk.rename("a", "c")]);
    expectEqual([moved.filter(Boolean).length, (await disk.list("")).length], [1, 1], "moves and names");
  }),
  simple("remove: two racing: one removes it", async (disk) => {
    await makeFile(disk, "a");
    expectEqual((await Promise.all([disk.remove("a"), disk.remove("a")])).filter(Boolean).length, 1, "removes");
  }),
  simple("remove: an absent folder, a folder that is made again: false; empty", async (disk) => {
    expectEqual(await disk.remove("f/g"), false, "absent");
    await disk.makeFolder("f");
    await makeFile(disk, "f/a");
    await disk.remove("f/a");
    await disk.remove("f");
    await disk.makeFolder("f");
    expectEqual(await namesIn(disk, "f"), [], "names");
  }),
  simple("list: after removes and renames: what is there now", async (disk) => {
    for (const path of ["a", "b", "c"]) await makeFile(disk, path);
    await disk.remove("a");
    await disk.rename("b", "d");
    expectEqual(await namesIn(disk, ""), ["file c", "file d"], "names");
  }),
  simple("freeBytes: more than none, and not negative after a write", async (disk) => {
    expectEqual((await disk.freeBytes()) > 0, true, "before");
    await makeFile(disk, "a", new Uint8Array(4096));
    expectEqual((await disk.freeBytes()) >= 0, true, "after");
  }),
  simple("paths: those that leave the root: failed assertions", async (disk) => {
    for (const path of ["../a", "/a", "f/../../a", "./a", "f//a", "f/", "a\0b", "f\\..\\a"]) {
      await expectCode(() => disk.create(path), "INTERNAL", `create ${path}`);
      await expectCode(() => disk.open(path), "INTERNAL", `open ${path}`);
      await expectCode(() => disk.remove(path), "INTERNAL", `remove ${path}`);
      await expectCode(() => disk.rename("a", path), "INTERNAL", `rename to ${path}`);
      await expectCode(() => disk.list(path), "INTERNAL", `list ${path}`);
      await expectCode(() => disk.makeFolder(path), "INTERNAL", `makeFolder ${path}`);
      await expectCode(async () => disk.syncFolder(path), "INTERNAL", `syncFolder ${path}`);
    }
  }),
];

const FILE_CASES: readonly Case[] = [
  simple("write: several parts: one behind the other", async (disk) => {
    const file = await makeFile(disk, "a");
    await file.write(0, [bytes(1, 2), bytes(), bytes(3), bytes(4, 5)]);
    expectEqual(await contentOf(disk, "a"), bytes(1, 2, 3, 4, 5), "content");
    expectEqual(file.size, 5, "size");
  }),
  simple("write: more parts than a system call takes: all of them", async (disk) => {
    const file = await makeFile(disk, "a");
    const parts = Array.from({ length: 3000 }, (_, at) => bytes(at & 255, at >> 8));
    await file.write(1, parts);
    const content = await file.read(1, 6000);
    expectEqual(file.size, 6001, "size");
    for (const [at, part] of parts.entries()) expectEqual(content.slice(2 * at, 2 * at + 2), part, `part ${at}`);
  }),
  simple("write: over the middle: the rest stays", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3, 4));
    await file.write(1, [bytes(9), bytes(8)]);
    expectEqual(await contentOf(disk, "a"), bytes(1, 9, 8, 4), "content");
    expectEqual(file.size, 4, "size");
  }),
  simple("write: behind the end: the gap reads as zeros", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1));
    await file.write(4, [bytes(5)]);
    expectEqual(await contentOf(disk, "a"), bytes(1, 0, 0, 0, 5), "content");
    expectEqual(file.size, 5, "size");
  }),
  simple("read: at, over and behind the end: what there is", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3));
    expectEqual(await file.read(1, 1), bytes(2), "middle");
    expectEqual(await file.read(2, 9), bytes(3), "over the end");
    expectEqual(await file.read(3, 9), bytes(), "at the end");
    expectEqual(await file.read(7, 9), bytes(), "behind the end");
    expectEqual(await file.read(0, 0), bytes(), "nothing");
  }),
  simple("read: the answer is the caller's: changing it changes nothing", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3));
    const kept = await file.read(0, 3);
    (await file.read(0, 3)).fill(9);
    await file.write(0, [bytes(7)]);
    expectEqual(kept, bytes(1, 2, 3), "kept");
    expectEqual(await file.read(0, 3), bytes(7, 2, 3), "content");
  }),
  simple("write: the caller reuses its buffer afterwards: the file keeps what it was given", async (disk) => {
    const buffer = bytes(1, 2);
    const file = await makeFile(disk, "a", buffer);
    buffer.fill(9);
    expectEqual(await file.read(0, 2), bytes(1, 2), "content");
  }),
  simple("write: 3 MiB: round trip, also from a second handle", async (disk) => {
    const content = Uint8Array.from({ length: 3 * 1024 * 1024 }, (_, at) => (at * 31) & 255);
    await makeFile(disk, "a", content);
    const found = await contentOf(disk, "a");
    expectEqual(found?.length, content.length, "length");
    expectEqual(
      found?.every((byte, at) => byte === content[at]),
      true,
      "content",
    );
  }),
  simple("truncate: shorter, then longer: cut, then zeros", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3));
    await file.truncate(1);
    expectEqual(file.size, 1, "size");
    await file.truncate(3);
    expectEqual(await contentOf(disk, "a"), bytes(1, 0, 0), "content");
  }),
  simple("sync: clean and dirty files, folders: resolves", async (disk) => {
    await disk.makeFolder("f");
    const file = await makeFile(disk, "f/a", bytes(1));
    await file.sync();
    await file.sync();
    await disk.syncFolder("f");
    await disk.syncFolder("");
    await file.close();
  }),
  simple("writeSynced: as write, several parts, over the middle, behind the end; also under another name", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3));
    await file.writeSynced(1, [bytes(8), bytes(9)]);
    await disk.rename("a", "b");
    await file.writeSynced(4, [bytes(5)]);
    expectEqual(file.size, 5, "size");
    expectEqual(await contentOf(disk, "b"), bytes(1, 8, 9, 0, 5), "content");
    expectEqual(await contentOf(disk, "a"), undefined, "the old name");
  }),
  simple("handles: two of a file: each reads what the other wrote, its size grows by its own writes", async (disk) => {
    const one = await makeFile(disk, "a", bytes(1, 2));
    const other = await disk.open("a");
    await one.write(2, [bytes(3)]);
    expectEqual([await other?.read(0, 9), one.size, other?.size], [bytes(1, 2, 3), 3, 2], "one wrote");
    await other?.write(4, [bytes(5)]);
    expectEqual([await one.read(0, 9), other?.size], [bytes(1, 2, 3, 0, 5), 5], "the other wrote");
  }),
  simple("handles: opened after the file grew: its size", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1));
    await file.write(1, [new Uint8Array(9_999)]);
    expectEqual((await disk.open("a"))?.size, 10_000, "size");
  }),
  simple("handles: one truncates: the other reads no more than is left", async (disk) => {
    const one = await makeFile(disk, "a", bytes(1, 2, 3));
    const other = await disk.open("a");
    await one.truncate(1);
    expectEqual(await other?.read(0, 3), bytes(1), "content");
  }),
  simple("handles: one is closed: the other goes on", async (disk) => {
    const one = await makeFile(disk, "a", bytes(1));
    const other = await disk.open("a");
    await one.close();
    await other?.write(1, [bytes(2)]);
    await other?.sync();
    expectEqual(await other?.read(0, 9), bytes(1, 2), "content");
  }),
  simple("close: again: harmless", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1));
    await file.close();
    await file.close();
    expectEqual(await contentOf(disk, "a"), bytes(1), "content");
  }),
  simple("write: a hundred at the same time, each in its place: all of them", async (disk) => {
    const file = await makeFile(disk, "a");
    const places = Array.from({ length: 100 }, (_, at) => (at * 37) % 100);
    await Promise.all(places.map((at) => file.write(at * 3, [bytes(at, at), bytes(at)])));
    const expected = Array.from({ length: 300 }, (_, at) => Math.floor(at / 3));
    expectEqual(await contentOf(disk, "a"), bytes(...expected), "content");
  }),
  simple("write: parts of one larger buffer: their own bytes", async (disk) => {
    const buffer = bytes(0, 1, 2, 3, 4, 5, 6, 7);
    const file = await makeFile(disk, "a");
    await file.write(0, [buffer.subarray(5, 7), buffer.subarray(1, 3)]);
    expectEqual(await contentOf(disk, "a"), bytes(5, 6, 1, 2), "content");
  }),
  simple("read: part by part, of a prime length each: what one read gives", async (disk) => {
    const content = Uint8Array.from({ length: 10_000 }, (_, at) => (at * 7) & 255);
    const file = await makeFile(disk, "a", content);
    for (let at = 0; at < content.length; at += 613) expectEqual(await file.read(at, 613), content.slice(at, at + 613), `at ${at}`);
  }),
  simple("read: memory is given for it: the same bytes, fewer at the end, and none behind them is touched", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3, 4, 5));
    const given = bytes(9, 9, 9, 9, 9, 9);
    expectEqual(await file.read(1, 3, given), bytes(2, 3, 4), "inside");
    expectEqual(given.subarray(3), bytes(9, 9, 9), "behind what was asked for");
    expectEqual(await file.read(3, 6, given), bytes(4, 5), "at the end");
    expectEqual(await file.read(5, 6, given), bytes(), "behind the end");
    expectEqual(await contentOf(disk, "a"), bytes(1, 2, 3, 4, 5), "content");
  }),
  simple("truncate: to nothing, then written: only what was written then", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1, 2, 3));
    await file.truncate(0);
    expectEqual([file.size, await contentOf(disk, "a")], [0, bytes()], "cut");
    await file.write(2, [bytes(9)]);
    expectEqual(await contentOf(disk, "a"), bytes(0, 0, 9), "written");
  }),
  simple("writeSynced: ten at the same time, with writes between them: all of them", async (disk) => {
    const file = await makeFile(disk, "a");
    const at = Array.from({ length: 20 }, (_, index) => index);
    await Promise.all(at.map((index) => (index % 2 === 0 ? file.writeSynced(index, [bytes(index)]) : file.write(index, [bytes(index)]))));
    expectEqual(await contentOf(disk, "a"), bytes(...at), "content");
  }),
  simple("sync: several of one file at the same time, and of its folder: all resolve", async (disk) => {
    await disk.makeFolder("f");
    const file = await makeFile(disk, "f/a", bytes(1));
    await Promise.all([file.sync(), file.sync(), disk.syncFolder("f"), file.write(1, [bytes(2)]), file.sync()]);
    expectEqual(await contentOf(disk, "f/a"), bytes(1, 2), "content");
  }),
  simple("use after close: failed assertion", async (disk) => {
    const file = await makeFile(disk, "a", bytes(1));
    await file.close();
    await expectCode(() => file.read(0, 1), "INTERNAL", "read");
    await expectCode(() => file.write(0, [bytes(1)]), "INTERNAL", "write");
    await expectCode(() => file.writeSynced(0, [bytes(1)]), "INTERNAL", "writeSynced");
    await expectCode(() => file.sync(), "INTERNAL", "sync");
  }),
];

export const DISK_CASES: readonly Case[] = [...NAME_CASES, ...FILE_CASES];

function crashing(name: string, run: (disk: Disk, subject: CrashableDiskSubject) => Promise<void>): CrashCase {
  return {
    name,
    run: (open) =>
      closing(async (given) => {
        const subject = await open();
        await run(keepingTrack(subject.disk, given), { ...subject, crash: async () => keepingTrack(await subject.crash(), given) });
      }),
  };
}

/** A file that a power cut leaves as it is. */
async function durableFile(disk: Disk, path: string, content: Uint8Array): Promise<DiskFile> {
  const file = await makeFile(disk, path, content);
  await file.sync();
  await disk.syncFolder("");
  return file;
}

export const DISK_CRASH_CASES: readonly CrashCase[] = [
  crashing("crash: bytes and name synced: there", async (disk, subject) => {
    await durableFile(disk, "a", bytes(1, 2));
    expectEqual(await contentOf(await subject.crash(), "a"), bytes(1, 2), "content");
  }),
  crashing("crash: name not synced: gone, though its bytes were", async (disk, subject) => {
    const file = await makeFile(disk, "a", bytes(1));
    await file.sync();
    expectEqual(await namesIn(await subject.crash(), ""), [], "names");
  }),
  crashing("crash: bytes not synced: lost, also those written over others", async (disk, subject) => {
    const file = await durableFile(disk, "a", bytes(1, 2));
    await file.write(1, [bytes(8, 9)]);
    expectEqual(await contentOf(await subject.crash(), "a"), bytes(1, 2), "content");
  }),
  crashing("crash: bytes written synced: there, with the size", async (disk, subject) => {
    const file = await durableFile(disk, "a", bytes(1, 2));
    await file.writeSynced(1, [bytes(8), bytes(9)]);
    expectEqual(await contentOf(await subject.crash(), "a"), bytes(1, 8, 9), "content");
  }),
  crashing("[OGD8] writeSynced whose sync fails: STORE_FAILED, and a later one makes its own bytes durable", async (disk, subject) => {
    const file = await durableFile(disk, "a", bytes(1, 2));
    subject.failNextSync();
    await expectCode(() => file.writeSynced(0, [bytes(7)]), "STORE_FAILED", "writeSynced");
    await file.writeSynced(1, [bytes(8)]);
    expectEqual(await contentOf(await subject.crash(), "a"), bytes(1, 8), "content");
  }),
  crashing("crash: truncation not synced, then synced: undone, then kept", async (disk, subject) => {
    await (await durableFile(disk, "a", bytes(1, 2, 3))).truncate(1);
    const after = await subject.crash();
    expectEqual(await contentOf(after, "a"), bytes(1, 2, 3), "not synced");
    const file = await after.open("a");
    await file?.truncate(1);
    await file?.sync();
    expectEqual(await contentOf(await subject.crash(), "a"), bytes(1), "synced");
  }),
  crashing("crash: rename not synced: the old name and the replaced file are back", async (disk, subject) => {
    await durableFile(disk, "a", bytes(1));
    await durableFile(disk, "b", bytes(2));
    await disk.rename("a", "b");
    const after = await subject.crash();
    expectEqual(await contentOf(after, "a"), bytes(1), "a");
    expectEqual(await contentOf(after, "b"), bytes(2), "b");
  }),
  crashing("crash: rename synced: the new name only", async (disk, subject) => {
    await durableFile(disk, "a", bytes(1));
    await disk.rename("a", "b");
    await disk.syncFolder("");
    expectEqual(await namesIn(await subject.crash(), ""), ["file b"], "names");
  }),
  crashing("crash: removal not synced: back; synced: gone", async (disk, subject) => {
    await durableFile(disk, "a", bytes(1));
    await disk.remove("a");
    const after = await subject.crash();
    expectEqual(await contentOf(after, "a"), bytes(1), "not synced");
    await after.remove("a");
    await after.syncFolder("");
    expectEqual(await contentOf(await subject.crash(), "a"), undefined, "synced");
  }),
  crashing("crash: folders made: there with those above them", async (disk, subject) => {
    await disk.makeFolder("f/g");
    expectEqual(await namesIn(await subject.crash(), "f"), ["folder g"], "names");
  }),
  crashing("crash: sync of another folder: no help to a name", async (disk, subject) => {
    await disk.makeFolder("f");
    await disk.makeFolder("g");
    await (await makeFile(disk, "f/a", bytes(1))).sync();
    await disk.syncFolder("g");
    await disk.syncFolder("");
    expectEqual(await namesIn(await subject.crash(), "f"), [], "names");
  }),
  crashing("[OGD8] failed sync: STORE_FAILED, and a later sync that succeeds does not make the bytes durable", async (disk, subject) => {
    const file = await durableFile(disk, "a", bytes(1, 2));
    await file.write(0, [bytes(7)]);
    subject.failNextSync();
    await expectCode(() => file.sync(), "STORE_FAILED", "sync");
    expectEqual(await file.read(0, 2), bytes(7, 2), "read before the crash");
    await file.sync();
    await file.write(1, [bytes(8)]);
    await file.sync();
    expectEqual(await contentOf(await subject.crash(), "a"), bytes(1, 8), "content");
  }),
  crashing("failed sync of a folder: STORE_FAILED; the next one makes the names durable", async (disk, subject) => {
    await (await makeFile(disk, "a", bytes(1))).sync();
    subject.failNextSync();
    await expectCode(() => disk.syncFolder(""), "STORE_FAILED", "sync");
    await disk.syncFolder("");
    expectEqual(await namesIn(await subject.crash(), ""), ["file a"], "names");
  }),
  crashing("full: STORAGE_FULL where the room ends; writing over bytes that are there goes on", async (disk, subject) => {
    const file = await makeFile(disk, "a", bytes(1, 2));
    subject.leaveRoom(1);
    await expectCode(() => file.write(2, [bytes(3, 4)]), "STORAGE_FULL", "write");
    await file.write(0, [bytes(9, 9)]);
    await disk.remove("a");
    await (await makeFile(disk, "b", bytes(1, 1))).sync();
  }),
  crashing("crash: files opened before it: STORE_FAILED", async (disk, subject) => {
    const file = await durableFile(disk, "a", bytes(1));
    const after = await subject.crash();
    await file.write(0, [bytes(9)]).then(
      () => Promise.reject(new Error("a dead handle wrote")),
      () => undefined,
    );
    expectEqual(await contentOf(after, "a"), bytes(1), "content");
  }),
];

/** Registers one test per promise of the Disk interface. `open` gives an empty disk each time. */
export function diskContract(test: TestFunction, open: () => Promise<DiskSubject>): void {
  registerContract(test, "Disk", DISK_CASES, open);
}

/** The promises about crashes, failed syncs and full disks too. */
export function crashableDiskContract(test: TestFunction, open: () => Promise<CrashableDiskSubject>): void {
  diskContract(test, open);
  registerContract(test, "Disk", DISK_CRASH_CASES, open);
}
