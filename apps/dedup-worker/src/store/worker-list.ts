// The list of workers with the placement of partitions, as one version (TX32): of the format, and where versions are kept.
import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import {
  assignable,
  foundingList,
  place,
  type ListedMember,
  type ListedState,
  type Member,
  type Placement,
  type RecordedList,
  type View,
} from "@concord/ownership";
import { ConcordError, type Checksum } from "@concord/runtime";

const FORMAT_VERSION = 1;
const STATES: readonly ListedState[] = ["arriving", "member", "leaving"];

export interface WorkerList extends RecordedList {
  /** Of all partitions. Made from the one before, so that the fewest move. */
  readonly placement: Placement;
}

/** Where versions of the list are kept, each written once. */
export interface WorkerLists {
  /** The newest version that there was when the call began, or a newer one; undefined: version 0. CORRUPT_DATA. */
  read(): Promise<WorkerList | undefined>;
  /** False: another worker wrote that version, and this one is not kept. When it rejects, it is not known whether it is. */
  write(list: WorkerList): Promise<boolean>;
  close(): Promise<void>;
}

export const unitOf = (partition: number): string => `p${partition}`;
export const partitionOfUnit = (unit: string): number => Number(unit.slice(1));

/** Units and the members that serve them by this list. */
export const viewOf = ({ version, members, placement }: WorkerList): View => ({ version: BigInt(version), members, placement });

const unitsOf = (partitions: number): readonly string[] => Array.from({ length: partitions }, (_, partition) => unitOf(partition));

/** Version 0. `before`: a placement that was agreed on before there were lists. */
export function foundingWorkers(
  workers: readonly (Member & { readonly address: string })[],
  partitions: number,
  before: Placement | undefined,
): WorkerList {
  const options = before === undefined ? {} : { before };
  return { ...foundingList(workers), placement: place(unitsOf(partitions), workers, { ranks: workers.length, ...options }) };
}

/** The list with a placement of all partitions that the one before had: the fewest move that leave every member its share (TX32). */
export function placedFrom(before: WorkerList, list: RecordedList): WorkerList {
  const members = assignable(list);
  const units = [...before.placement.keys()];
  return { ...list, placement: place(units, members, { ranks: members.length, before: before.placement }) };
}

export function encodeWorkerList({ version, founders, members, placement }: WorkerList, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter(512).varint(version).varint(founders.length);
  for (const name of founders) writer.text(name);
  writer.varint(members.length);
  for (const { name, datacenter, address, place: at, state } of members)
    writer.text(name).text(datacenter).text(address).varint(at).varint(STATES.indexOf(state));
  writer.varint(placement.size);
  for (const [unit, ranks] of placement) {
    writer.text(unit).varint(ranks.length);
    for (const name of ranks) writer.text(name);
  }
  return sealRecord(FORMAT_VERSION, writer, checksum);
}

/** CORRUPT_DATA when it is not what `encodeWorkerList` writes. */
export function decodeWorkerList(stored: Uint8Array, checksum: Checksum): WorkerList {
  const reader = new ByteReader(openRecord(stored, FORMAT_VERSION, checksum).body);
  const texts = (): string[] => Array.from({ length: reader.varint() }, () => reader.text());
  const version = reader.varint();
  const founders = texts();
  const members = Array.from({ length: reader.varint() }, (): ListedMember => {
    const [name, datacenter, address] = [reader.text(), reader.text(), reader.text()];
    const at = reader.varint();
    const state = STATES[reader.varint()];
    if (state === undefined) throw new ConcordError("CORRUPT_DATA", `the list of workers has ${name} in a state that is none`);
    return { name, datacenter, address, place: at, state };
  });
  const placement = new Map(Array.from({ length: reader.varint() }, (): [string, readonly string[]] => [reader.text(), texts()]));
  reader.end();
  return { version, founders, members, placement };
}
