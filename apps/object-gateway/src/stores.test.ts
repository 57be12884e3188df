// The stores as composition.ts puts them together, on a real disk: they keep the contracts of their ports.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { KeyValueMetadata } from "@concord/adapter-key-value-metadata";
import { openStore } from "@concord/store";
import { openLevel } from "@concord/adapter-level";
import { nodeChecksum, nodeClock, nodeDescriptors, nodeDisk, nodeRandom } from "@concord/adapter-node-runtime";
import { Engine } from "@concord/engine";
import { objectDataContract, objectMetadataContract } from "@concord/port-contracts";
import type { Oid, Store } from "@concord/ports";
import { silentLog, type Disk } from "@concord/runtime";

const closers: (() => Promise<void>)[] = [];
after(async () => {
  for (const close of closers.toReversed()) await close();
});

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "concord-stores-"));
  closers.push(() => rm(made, { recursive: true }));
  return made;
}

/** Blobs as files: a killed process leaves what the system has. */
objectDataContract(test, async () => {
  const disk = nodeDisk(await folder());
  const open = (): FilesystemObjectData =>
    new FilesystemObjectData({ disk, checksum: nodeChecksum, random: nodeRandom, failpoint: () => undefined });
  return { data: open(), checksum: nodeChecksum, crash: async () => open(), damage: (oid, at) => damage(disk, oid, at) };
});

/** Flips a bit of byte `at` of the data, behind the header. */
async function damage(disk: Disk, oid: Oid, at: number): Promise<void> {
  const [epoch, sequence] = oid.split("-") as [string, string];
  const group = Math.floor(Number.parseInt(sequence, 16) / 4096).toString(16);
  const file = (await disk.open(`pieces/${epoch}/${group.padStart(9, "0")}/${oid}`))!;
  const length = await file.read(5, 4);
  const dataAt = 9 + new DataView(length.buffer, length.byteOffset).getUint32(0) + 4;
  const byte = await file.read(dataAt + at, 1);
  await file.write(dataAt + at, [Uint8Array.of(byte[0]! ^ 1)]);
  await file.close();
}

const ENVIRONMENT = { clock: nodeClock, random: nodeRandom, checksum: nodeChecksum, log: silentLog, failpoint: () => undefined };

/** Rows in a level store behind the engine that makes groups of commits. */
objectMetadataContract(test, async () => {
  const root = await folder();
  let store: Store | undefined;
  const open = async (): Promise<KeyValueMetadata> => {
    await store?.close();
    const backing = await openLevel(join(root, "rows"), nodeDescriptors());
    const opened = await openStore({ ...ENVIRONMENT, disk: nodeDisk(root), folder: "rows", backing });
    store = opened;
    closers.push(() => opened.close().catch(() => undefined));
    const engine = new Engine({ store: opened, clock: nodeClock, onFailed: (cause) => void Promise.reject(cause) });
    return new KeyValueMetadata({ store: engine, checksum: nodeChecksum, log: silentLog });
  };
  return { metadata: await open(), crash: open };
});
