// `concord fsck --blobs`: every byte of the data of objects against its checksums. Reads only.
import { dirname } from "node:path";
import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { nodeChecksum, nodeDisk, nodeRandom, overlayDisk } from "@concord/adapter-node-runtime";
import { parseOid, type BlobDescription, type Oid } from "@concord/ports";
import { ConcordError, silentLog, type Log } from "@concord/runtime";
import type { Damage, Print } from "./damage.ts";

const PAGE_BLOBS = 1_000;

/** Result of one blob: its bytes, that it has no end, or what is wrong with it. */
type Checked =
  | { readonly kind: "sound"; readonly bytes: number }
  | { readonly kind: "open" }
  | { readonly kind: "damaged"; readonly what: string };

/**
 * Reads every blob in the folder `where`. A blob without an end may be an upload that was cut off or have a damaged end: only the rows of objects can
 * say which, so it is counted and no damage.
 */
export async function checkBlobs(where: string, print: Print): Promise<readonly Damage[]> {
  const disk = overlayDisk(nodeDisk(dirname(where)));
  const found: Damage[] = [];
  const report = (what: string): void => void found.push({ where, holding: "object-data", what });
  const log: Log = { ...silentLog, error: (message, fields = {}) => report(`${message} ${JSON.stringify(fields)}`) };
  const data = new FilesystemObjectData({ disk, checksum: nodeChecksum, random: nodeRandom, failpoint: () => undefined, log });
  let [blobs, bytes, open] = [0, 0, 0];
  try {
    for await (const oid of oidsOf(data)) {
      const checked = await check(data, oid);
      if (checked.kind === "damaged") report(checked.what);
      else if (checked.kind === "open") open += 1;
      else {
        blobs += 1;
        bytes += checked.bytes;
      }
    }
    print(`${blobs} blobs with ${bytes} bytes as they were written`);
    if (open > 0)
      print(`${open} blobs without an end: uploads that were cut off, or their ends are damaged; the scrub of a running node knows`);
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    report(thrown.message);
  } finally {
    await data.close();
    await disk.close();
  }
  return found;
}

async function* oidsOf(data: FilesystemObjectData): AsyncGenerator<Oid> {
  for (const epoch of await data.epochs()) {
    let fromSequence = 0;
    for (;;) {
      const page = await data.list({ epoch, fromSequence, limit: PAGE_BLOBS });
      yield* page;
      const last = page.at(-1);
      if (last === undefined) break;
      fromSequence = parseOid(last).sequence + 1;
    }
  }
}

async function check(data: FilesystemObjectData, oid: Oid): Promise<Checked> {
  let object = "";
  try {
    const state = await data.inspect(oid);
    if (state.kind !== "sealed") return { kind: "open" };
    object = ` (${nameOf(state.description)})`;
    for await (const _ of data.read(oid, 0, state.sealed.lengthBytes));
    return { kind: "sound", bytes: state.sealed.lengthBytes };
  } catch (thrown) {
    if (!(thrown instanceof ConcordError)) throw thrown;
    return { kind: "damaged", what: `blob ${oid}${object}: ${thrown.message}` };
  }
}

/** Name of the object for which the blob was written; it may have been overwritten or deleted since. */
function nameOf({ bucket, key, part }: BlobDescription): string {
  return part === undefined ? `${bucket}/${key}` : `${bucket}/${key}, part ${part.number}`;
}
