// Versions of the list of workers in a topic of one partition: of the records for one version the first in its order counts.
import type { KafkaRecords } from "@concord/adapter-kafka";
import type { Checksum } from "@concord/runtime";
import { decodeWorkerList, encodeWorkerList, type WorkerList, type WorkerLists } from "./worker-list.ts";

export class KafkaLists implements WorkerLists {
  readonly #records: KafkaRecords;
  readonly #checksum: Checksum;
  #newest: { readonly list: WorkerList; readonly bytes: Uint8Array } | undefined;

  constructor(records: KafkaRecords, checksum: Checksum) {
    this.#records = records;
    this.#checksum = checksum;
  }

  async read(): Promise<WorkerList | undefined> {
    await this.#records.readOn((bytes) => {
      const list = decodeWorkerList(bytes, this.#checksum);
      if (list.version === (this.#newest?.list.version ?? 0) + 1) this.#newest = { list, bytes };
    });
    return this.#newest?.list;
  }

  async write(list: WorkerList): Promise<boolean> {
    const bytes = encodeWorkerList(list, this.#checksum);
    await this.#records.append(bytes);
    await this.read();
    // Two workers that write the same have both written it.
    const found = this.#newest;
    return found !== undefined && found.list.version === list.version && Buffer.compare(found.bytes, bytes) === 0;
  }

  close(): Promise<void> {
    return this.#records.close();
  }
}
