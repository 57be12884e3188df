// The placement of partitions in the folder that the workers share, as versions before the list of workers kept it: read once, never written any more.
import { ByteReader, openRecord } from "@concord/codec";
import type { Placement } from "@concord/ownership";
import { ConcordError, type Checksum, type Disk } from "@concord/runtime";

const FOLDER = "views";
const FILE = "view";
const NAME = /^view-(\d{8})$/;
const FORMAT_VERSION = 1;

/** The newest of them; undefined: there is none. CORRUPT_DATA. */
export async function storedPlacement(disk: Disk, checksum: Checksum): Promise<Placement | undefined> {
  const newest = (await disk.list(FOLDER)).filter(({ name }) => NAME.test(name)).at(-1);
  if (newest === undefined) return undefined;
  const file = await disk.open(`${FOLDER}/${newest.name}/${FILE}`);
  if (file === undefined) throw new ConcordError("CORRUPT_DATA", `${newest.name} of the workers has no content; remove its folder`);
  try {
    return decodePlacement(await file.read(0, file.size), checksum);
  } finally {
    await file.close();
  }
}

/** CORRUPT_DATA when it is not what was written. */
export function decodePlacement(stored: Uint8Array, checksum: Checksum): Placement {
  const reader = new ByteReader(openRecord(stored, FORMAT_VERSION, checksum).body);
  const texts = (): string[] => Array.from({ length: reader.varint() }, () => reader.text());
  reader.u64();
  // Name and datacenter of each member, which the placement was made for.
  for (let left = reader.varint(); left > 0; left -= 1) void [reader.text(), reader.text()];
  const placement = new Map(Array.from({ length: reader.varint() }, (): [string, readonly string[]] => [reader.text(), texts()]));
  reader.end();
  return placement;
}
