import { ALONE, type ListedMembership, type Membership } from "@concord/failure-detection";
import { addCommandOf, WORKER_LIST } from "@concord/member-lists";
import { fixedLists, MemberLists, Owners } from "@concord/ownership";
import { assert, type ConcordError, type Disk, type Environment } from "@concord/runtime";
import { isListed, type DedupWorkerConfig } from "../config.ts";
import type { SharedList } from "../context.ts";
import { FolderLists } from "../store/folder-lists.ts";
import { kafkaConnection } from "../store/kafka-connection.ts";
import { KafkaLists } from "../store/kafka-lists.ts";
import { storedPlacement } from "../store/views.ts";
import { foundingWorkers, viewOf, type WorkerList, type WorkerLists } from "../store/worker-list.ts";

export interface SharedListHost {
  readonly environment: Environment;
  readonly logDisk?: Disk;
  readonly kafkaCa?: string;
  readonly onFailed?: (cause: ConcordError) => void;
}

/** The one worker of its log. */
export function soleOwner({ nodeName, listenAddress: address, partitions }: DedupWorkerConfig, { clock, log }: Environment): Owners {
  const lists = fixedLists(foundingWorkers([{ name: nodeName, address, datacenter: "" }], partitions, undefined), nodeName, { clock, log });
  return new Owners({ lists, view: () => viewOf(lists.current), nodeName, membership: ALONE, clock, log });
}

/** The list of the workers that share a log, from its opening to the end of the process. */
export class SharedListPart {
  readonly #config: DedupWorkerConfig;
  readonly #host: SharedListHost;
  #lists: MemberLists<WorkerList> | undefined;
  #stored: WorkerLists | undefined;
  #opened: SharedList | undefined;

  constructor(config: DedupWorkerConfig, host: SharedListHost) {
    this.#config = config;
    this.#host = host;
  }

  /** What `open` has opened. */
  get opened(): SharedList {
    assert(this.#opened !== undefined, "the list of workers is opened first");
    return this.#opened;
  }

  /** Resolves when this worker is in the list. Rejects when the signal is aborted before. */
  async open(membership: Membership | ListedMembership, signal: AbortSignal): Promise<void> {
    const { nodeName, workers, partitions, log: kind } = this.#config;
    const { environment, logDisk, onFailed } = this.#host;
    const { clock, log, checksum } = environment;
    const listed = isListed(this.#config) && "listRead" in membership ? membership : undefined;
    const before = kind === "kafka" || logDisk === undefined ? undefined : await storedPlacement(logDisk, checksum);
    const stored = listed === undefined ? undefined : await this.#openStored(signal);
    this.#stored = stored;
    const lists = new MemberLists<WorkerList>({
      configured: foundingWorkers(workers, partitions, before),
      nodeName,
      read: async () => stored?.read(),
      clock,
      log,
      membership: listed,
      noun: WORKER_LIST.noun,
      addCommand: addCommandOf(WORKER_LIST),
      onFailed: onFailed ?? ((cause) => void Promise.reject(cause)),
    });
    this.#lists = lists;
    const owners = new Owners({ lists, view: () => viewOf(lists.current), nodeName, membership, clock, log });
    await owners.listed(signal);
    this.#opened = { lists, owners, stored };
  }

  close(): void {
    this.#lists?.stop();
    void this.#stored?.close().catch(() => undefined);
  }

  async #openStored(signal: AbortSignal): Promise<WorkerLists> {
    const { log: kind, kafkaWorkersTopic: topic, kafkaReplicasMin: replicasMin } = this.#config;
    const { environment, logDisk, kafkaCa } = this.#host;
    if (kind === "embedded") {
      assert(logDisk !== undefined, "workers that share the embedded log have a disk in common");
      return new FolderLists({ ...environment, disk: logDisk });
    }
    // The driver is loaded only where it is used: programs that do without start sooner.
    const { openKafkaRecords } = await import("@concord/adapter-kafka");
    assert(topic !== undefined, "workers on Kafka whose list changes have a topic for it");
    const records = await openKafkaRecords({ ...kafkaConnection(this.#config, kafkaCa), ...environment, topic, replicasMin, signal });
    return new KafkaLists(records, environment.checksum);
  }
}
