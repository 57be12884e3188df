// Which worker serves each partition: the list of workers with its placement, and whom a majority hears.
import type { ListedMembership, Membership } from "@concord/failure-detection";
import { Owners, type ListedMember, type MemberLists, type View } from "@concord/ownership";
import type { Clock, Log } from "@concord/runtime";
import { unitOf, type WorkerList } from "../store/worker-list.ts";

/** One of the workers that share a log. */
export type Worker = Pick<ListedMember, "name" | "address" | "datacenter">;

export interface Ownership {
  /** Several workers share the log: a partition may move to another one, and back. */
  readonly isShared: boolean;
  /** This worker's name. */
  readonly self: string;
  /** The version of the list of workers by which the rest is said. */
  readonly listVersion: number;
  /** This worker may own partitions: a majority hears it. */
  readonly works: boolean;
  /** This worker should have the partition open. Two may think so at once: the epoch in the log decides (I8 of the adapter-embedded-log README). */
  owns(partition: number): boolean;
  /** The worker that should have it open, or is about to; undefined: one that this one knows no address of. */
  ownerOf(partition: number): Worker | undefined;
  /** A worker of the list, and not this one. */
  isOther(name: string): boolean;
  /** The other workers that neither failed nor leave. */
  readonly present: readonly Worker[];
  /** A majority has lost the worker. */
  hasFailed(name: string): boolean;
  /** A majority hears the worker, and so does this one. */
  hears(name: string): boolean;
  /** This worker works, and one before it in the partition's ranks should serve. */
  follows(partition: number): boolean;
  /** The workers that may serve the partition and are asked to release it before it is opened here. */
  askedToRelease(partition: number, follows: boolean): readonly Worker[];
  /** The worker, perhaps this one, is about to stop: its partitions are for others, though it still serves them. */
  left(name: string): void;
  /** A worker that takes partitions does not leave. */
  returned(name: string): void;
  /** `onChange` after each change; `isNewList`: of the list. Rejects when nothing will be heard of the others. */
  start(onChange: (isNewList: boolean) => void): Promise<void>;
  /** The list as it is now counts from now on. Rejects when it cannot be read. */
  refresh(): Promise<void>;
  stop(): Promise<void>;
}

/** The one worker of its log. */
export const SOLE: Ownership = {
  isShared: false,
  self: "",
  listVersion: 0,
  works: true,
  owns: () => true,
  ownerOf: () => undefined,
  isOther: () => false,
  present: [],
  hasFailed: () => false,
  hears: () => false,
  follows: () => false,
  askedToRelease: () => [],
  left: () => undefined,
  returned: () => undefined,
  start: async () => {},
  refresh: async () => {},
  stop: async () => {},
};

export interface SharedOwnershipOptions {
  readonly lists: MemberLists<WorkerList>;
  readonly nodeName: string;
  readonly membership: Membership | ListedMembership;
  readonly clock: Clock;
  readonly log: Log;
}

/** Resolves when this worker is in the list. Rejects when the signal is aborted before. */
export async function openSharedOwnership(options: SharedOwnershipOptions, signal: AbortSignal): Promise<Ownership> {
  const { lists, nodeName, membership, clock, log } = options;
  const nameAt = (place: number): string | undefined => lists.at(place)?.name;
  const owners = new Owners({ membership, nameAt, nodeName, view: viewOf(lists.current), clock, log });
  let changed: (isNewList: boolean) => void = () => undefined;
  await lists.start(signal, () => {
    owners.view = viewOf(lists.current);
    changed(true);
  });
  const others = (): readonly Worker[] => lists.current.members.filter(({ name }) => name !== nodeName);
  return {
    isShared: true,
    self: nodeName,
    get listVersion() {
      return lists.current.version;
    },
    get works() {
      return owners.works;
    },
    owns: (partition) => owners.owns(unitOf(partition)),
    ownerOf: (partition) => {
      const owner = owners.ownerOf(unitOf(partition));
      return lists.current.members.find(({ name }) => name === owner);
    },
    isOther: (name) => others().some((worker) => worker.name === name),
    get present() {
      return others().filter(({ name }) => owners.isPresent(name));
    },
    hasFailed: (name) => owners.hasFailed(name),
    hears: (name) => owners.hears(name),
    follows: (partition) => owners.follows(unitOf(partition)),
    askedToRelease: (partition, follows) => {
      const asked = owners.askedToRelease(unitOf(partition), follows);
      return others().filter(({ name }) => asked.includes(name));
    },
    left: (name) => owners.left(name),
    returned: (name) => owners.returned(name),
    start: async (onChange) => {
      changed = onChange;
      await owners.start(
        () => onChange(false),
        () => lists.readSoon(),
      );
    },
    refresh: () => lists.refresh(),
    stop: async () => {
      lists.stop();
      await owners.stop();
    },
  };
}

function viewOf({ version, members, placement }: WorkerList): View {
  return { version: BigInt(version), members, placement };
}
