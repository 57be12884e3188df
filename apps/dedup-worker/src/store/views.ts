// The placement of partitions, in the folder that the workers share: versions that follow each other, each made once and never changed.
import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import { nextView, type Member, type View } from "@concord/ownership";
import { ConcordError, toHex, type Checksum, type Disk, type Random } from "@concord/runtime";

const FOLDER = "views";
const FILE = "view";
const NAME = /^view-(\d{8})$/;
const FORMAT_VERSION = 1;
const NAME_DIGITS = 8;
const DRAFT_BYTES = 8;
/** Workers that may start at the same time with other members each. */
const ATTEMPTS_MAX = 16;

export interface ViewsOptions {
  /** Shared by all workers. */
  readonly disk: Disk;
  readonly checksum: Checksum;
  readonly random: Random;
}

export const unitOf = (partition: number): string => `p${partition}`;

const unitsOf = (partitions: number): readonly string[] => Array.from({ length: partitions }, (_, partition) => unitOf(partition));
const NOTHING: View = { version: 0n, members: [], placement: new Map() };

/** The one view of workers that share no folder: it follows from their list, whatever the order. With another list more may move than must. */
export function viewOf(members: readonly Member[], partitions: number): View {
  return nextView(NOTHING, members, unitsOf(partitions), members.length);
}

/**
 * The newest view if it has exactly these members; else the next one, made from it: the fewest partitions move that leave every member its share
 * (TX32). Of several workers that make a view at the same time one succeeds.
 */
export async function agreeOnView(options: ViewsOptions, members: readonly Member[], partitions: number): Promise<View> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const found = (await newestView(options)) ?? NOTHING;
    if (isOf(found, members)) return found;
    const next = nextView(found, members, unitsOf(partitions), members.length);
    if (await publish(options, next)) return next;
  }
  throw new ConcordError("STORE_FAILED", "the workers do not agree on their list of workers: give all the same", { applied: "no" });
}

/** Undefined: there is none yet. CORRUPT_DATA. */
export async function newestView({ disk, checksum }: ViewsOptions): Promise<View | undefined> {
  const newest = (await disk.list(FOLDER)).filter(({ name }) => NAME.test(name)).at(-1);
  if (newest === undefined) return undefined;
  const file = await disk.open(`${FOLDER}/${newest.name}/${FILE}`);
  if (file === undefined) throw new ConcordError("CORRUPT_DATA", `${newest.name} of the workers has no content; remove its folder`);
  try {
    return decodeView(await file.read(0, file.size), checksum);
  } finally {
    await file.close();
  }
}

/** False: another worker made that version. Whole and durable before it gets its name. */
async function publish({ disk, checksum, random }: ViewsOptions, view: View): Promise<boolean> {
  const draft = `${FOLDER}/draft-${toHex(random.bytes(DRAFT_BYTES))}`;
  await disk.makeFolder(draft);
  const file = await disk.create(`${draft}/${FILE}`);
  if (file === "exists") return false;
  try {
    await file.write(0, [encodeView(view, checksum)]);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.syncFolder(draft);
  const name = `view-${String(view.version).padStart(NAME_DIGITS, "0")}`;
  try {
    await disk.rename(draft, `${FOLDER}/${name}`);
  } catch (thrown) {
    const isTaken = (await disk.list(FOLDER)).some((entry) => entry.name === name);
    await disk.remove(`${draft}/${FILE}`).catch(() => false);
    await disk.remove(draft).catch(() => false);
    if (!isTaken) throw thrown;
    return false;
  }
  await disk.syncFolder(FOLDER);
  return true;
}

function isOf({ members }: View, wanted: readonly Member[]): boolean {
  const text = (list: readonly Member[]): string =>
    JSON.stringify(list.map(({ name, datacenter }) => [name, datacenter]).sort(([a], [b]) => (a! < b! ? -1 : 1)));
  return text(members) === text(wanted);
}

export function encodeView({ version, members, placement }: View, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter(256).u64(version).varint(members.length);
  for (const { name, datacenter } of members) writer.text(name).text(datacenter);
  writer.varint(placement.size);
  for (const [unit, ranks] of placement) {
    writer.text(unit).varint(ranks.length);
    for (const name of ranks) writer.text(name);
  }
  return sealRecord(FORMAT_VERSION, writer.finish(), checksum);
}

/** CORRUPT_DATA when it is not what `encodeView` writes. */
export function decodeView(stored: Uint8Array, checksum: Checksum): View {
  const reader = new ByteReader(openRecord(stored, FORMAT_VERSION, checksum).body);
  const version = reader.u64();
  const members = Array.from({ length: reader.varint() }, () => ({ name: reader.text(), datacenter: reader.text() }));
  const placement = new Map(
    Array.from({ length: reader.varint() }, (): [string, readonly string[]] => [
      reader.text(),
      Array.from({ length: reader.varint() }, () => reader.text()),
    ]),
  );
  reader.end();
  return { version, members, placement };
}
