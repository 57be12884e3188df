// A process without a free descriptor: what appends of a journal do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, type DiskFile } from "@concord/runtime";
import { MemoryDisk } from "@concord/port-contracts";
import { everything, openOn, SMALL, text } from "./test/memory-journal.ts";

/** Pauses of 250 ms in ten minutes. */
const TEN_MINUTES_PAUSES = 2_400;
const CALLS = ["create", "syncFolder", "writeSynced"] as const;
type Call = (typeof CALLS)[number];

/** The named call finds no descriptor while `isStarved`. */
class StarvedDisk extends MemoryDisk {
  isStarved = false;

  constructor(call: Call) {
    super();
    const refuse = async (): Promise<void> => {
      if (this.isStarved) throw new ConcordError("OVERLOADED", "no descriptor", { applied: "no" });
    };
    const { create, open, syncFolder } = this;
    const guarded = (file: DiskFile): DiskFile => {
      const writeSynced: DiskFile["writeSynced"] = async (offset, parts) => {
        if (call === "writeSynced") await refuse();
        await file.writeSynced(offset, parts);
      };
      return new Proxy(file, {
        get: (target, name) => {
          if (name === "writeSynced") return writeSynced;
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      });
    };
    Object.assign(this, {
      create: async (path: string) => {
        if (call === "create") await refuse();
        const file = await create(path);
        return file === "exists" ? file : guarded(file);
      },
      open: async (path: string) => {
        const file = await open(path);
        return file && guarded(file);
      },
      syncFolder: async (folder: string) => {
        if (call === "syncFolder") await refuse();
        await syncFolder(folder);
      },
    });
  }
}

for (const call of CALLS) {
  test(`descriptors: ${call} finds none for ten minutes: appends wait in their order, the journal goes on`, async () => {
    const disk = new StarvedDisk(call);
    let pauses = 0;
    const spacePause = async (): Promise<void> => {
      pauses += 1;
      if (pauses === TEN_MINUTES_PAUSES) disk.isStarved = false;
    };
    const journal = await openOn(disk, { limits: SMALL, spacePause });
    await journal.append(text("first"));
    disk.isStarved = true;
    const values = Array.from({ length: 8 }, (_, at) => `${at}`.repeat(100));
    const sequences = await Promise.all(values.map((value) => journal.append(text(value))));
    assert.equal(pauses, TEN_MINUTES_PAUSES);
    assert.equal(journal.isStopped, false);
    assert.deepEqual(
      sequences,
      values.map((_, at) => BigInt(at + 1)),
    );
    disk.crash(() => 0);
    const expected = ["first", ...values].map((value, at) => `${at}:${value}`);
    assert.deepEqual(await everything(await openOn(disk, { limits: SMALL, strict: true })), expected);
  });

  test(`descriptors: ${call} finds none, and appends do not wait: OVERLOADED, applied no; later ones are written`, async () => {
    const disk = new StarvedDisk(call);
    const journal = await openOn(disk, { limits: SMALL });
    disk.isStarved = true;
    const refused: string[] = [];
    for (let tries = 0; tries < 20 && refused.length === 0; tries += 1)
      await journal.append(new Uint8Array(150)).catch(({ code, applied }: ConcordError) => refused.push(`${code}/${applied}`));
    assert.deepEqual(refused, ["OVERLOADED/no"]);
    disk.isStarved = false;
    await journal.append(text("later"));
    assert.match((await everything(journal)).at(-1)!, /:later$/);
  });
}
