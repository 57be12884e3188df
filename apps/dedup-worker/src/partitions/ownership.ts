// Which worker serves each partition: the placement that all workers of a log agreed on, and whom a majority hears.
import type { Membership } from "@concord/failure-detection";
import { newerView, Owners, type View } from "@concord/ownership";
import { unitOf } from "../store/views.ts";
import type { Clock, Log } from "@concord/runtime";

/** One of the workers that share a log. */
export interface Worker {
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
}

export interface Ownership {
  /** Several workers share the log: a partition may move to another one, and back. */
  readonly isShared: boolean;
  /** This worker's name. */
  readonly self: string;
  /** This worker may own partitions: a majority hears it. */
  readonly works: boolean;
  /** This worker should have the partition open. Two may think so at once: the epoch in the log decides (I8 of the adapter-embedded-log README). */
  owns(partition: number): boolean;
  /** The worker that should have it open, or is about to; undefined: one that this one knows no address of. */
  ownerOf(partition: number): Worker | undefined;
  /** The other workers that neither failed nor leave. */
  readonly present: readonly Worker[];
  /** A majority has lost the worker. */
  hasFailed(name: string): boolean;
  /** This worker works, and one before it in the partition's ranks should serve. */
  follows(partition: number): boolean;
  /** The workers that may serve the partition and are asked to release it before it is opened here. */
  askedToRelease(partition: number, follows: boolean): readonly Worker[];
  /** The worker, perhaps this one, is about to stop: its partitions are for others, though it still serves them. */
  left(name: string): void;
  /** A worker that takes partitions does not leave. */
  returned(name: string): void;
  /** `onChange` after each change. Rejects when nothing will be heard of the others. */
  start(onChange: () => void): Promise<void>;
  /** A newer placement counts from now on. */
  refresh(): Promise<void>;
  stop(): Promise<void>;
}

/** The one worker of its log. */
export const SOLE: Ownership = {
  isShared: false,
  self: "",
  works: true,
  owns: () => true,
  ownerOf: () => undefined,
  present: [],
  hasFailed: () => false,
  follows: () => false,
  askedToRelease: () => [],
  left: () => undefined,
  returned: () => undefined,
  start: async () => {},
  refresh: async () => {},
  stop: async () => {},
};

export interface SharedOwnershipOptions {
  readonly workers: readonly Worker[];
  readonly nodeName: string;
  readonly membership: Membership;
  readonly clock: Clock;
  readonly log: Log;
  /** The newest view that the workers agreed on, or a new one. */
  readonly agree: () => Promise<View>;
  /** The newest view that is there. */
  readonly newest: () => Promise<View | undefined>;
}

export async function openSharedOwnership(options: SharedOwnershipOptions): Promise<Ownership> {
  const { workers, nodeName, membership, clock, log, agree, newest } = options;
  const owners = new Owners({ membership, members: workers, nodeName, view: await agree(), clock, log });
  return {
    isShared: true,
    self: nodeName,
    get works() {
      return owners.works;
    },
    owns: (partition) => owners.owns(unitOf(partition)),
    ownerOf: (partition) => workers.find(({ name }) => name === owners.ownerOf(unitOf(partition))),
    get present() {
      return workers.filter(({ name }) => name !== nodeName && owners.isPresent(name));
    },
    hasFailed: (name) => owners.hasFailed(name),
    follows: (partition) => owners.follows(unitOf(partition)),
    askedToRelease: (partition, follows) => {
      const asked = owners.askedToRelease(unitOf(partition), follows);
      return workers.filter(({ name }) => asked.includes(name));
    },
    left: (name) => owners.left(name),
    returned: (name) => owners.returned(name),
    start: (onChange) => owners.start(onChange),
    refresh: async () => {
      const found = await newest();
      if (found !== undefined) owners.view = newerView(owners.view, found);
    },
    stop: () => owners.stop(),
  };
}
