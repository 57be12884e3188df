import type { MetadataRow, ObjectMetadata } from "@concord/ports";
import { assert, Rounds } from "@concord/runtime";
import { GATHERED_KEYS_MAX } from "./limits.ts";

interface Waiting {
  readonly keys: readonly Uint8Array[];
  readonly answer: (rows: readonly (MetadataRow | undefined)[]) => void;
  readonly fail: (thrown: unknown) => void;
}

/**
 * Reads of a partition that are asked for while one runs are made together by the next one: each begins after it was asked for, so it is as serial
 * as one by itself (I13), and in the order of its keys. When reading together fails, each is made alone, so that a row that cannot be read fails its own reads only.
 */
export class GatheredReads {
  readonly #metadata: ObjectMetadata;
  readonly #partitions = new Map<string, Rounds<Waiting>>();

  constructor(metadata: ObjectMetadata) {
    this.#metadata = metadata;
  }

  read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    const rounds = this.#partitions.get(partition) ?? new Rounds<Waiting>((asked) => this.#readAll(partition, asked));
    this.#partitions.set(partition, rounds);
    return new Promise((answer, fail) => void rounds.join({ keys, answer, fail }).catch(fail));
  }

  async #readAll(partition: string, asked: readonly Waiting[]): Promise<void> {
    for (let at = 0; at < asked.length;) {
      const group = [asked[at]!];
      let keys = group[0]!.keys.length;
      for (at += 1; at < asked.length && keys + asked[at]!.keys.length <= GATHERED_KEYS_MAX; at += 1) {
        group.push(asked[at]!);
        keys += asked[at]!.keys.length;
      }
      assert(group.length === 1 || keys <= GATHERED_KEYS_MAX, "a shared read has a bounded number of keys");
      await this.#readGroup(partition, group);
    }
  }

  async #readGroup(partition: string, group: readonly Waiting[]): Promise<void> {
    try {
      const rows = await this.#metadata.read(
        partition,
        group.flatMap(({ keys }) => keys),
      );
      let from = 0;
      for (const { keys, answer } of group) {
        answer(rows.slice(from, from + keys.length));
        from += keys.length;
      }
      assert(from === rows.length, "I13: a shared read has the rows of each that asked for it");
    } catch (thrown) {
      if (group.length === 1) group[0]!.fail(thrown);
      else for (const one of group) await this.#readGroup(partition, [one]);
    }
  }
}
