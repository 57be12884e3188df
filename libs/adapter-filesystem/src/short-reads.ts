import { assert, type DiskFile } from "@concord/runtime";
import { SHORT_READ_BYTES_MAX, SHORT_READS_BYTES_MAX, SHORT_READS_GAP_BYTES_MAX } from "./limits.ts";

interface Waiting {
  readonly offset: number;
  readonly lengthBytes: number;
  readonly answer: (bytes: Uint8Array) => void;
  readonly fail: (thrown: unknown) => void;
}

/**
 * Short reads of one file that are asked for in the same turn: those that lie close together are one call. None waits for a call before it. When
 * reading together fails, each is made alone, so that bytes that cannot be read fail their own reads only.
 */
export class ShortReads {
  readonly #file: Pick<DiskFile, "read">;
  #waiting: Waiting[] = [];

  constructor(file: Pick<DiskFile, "read">) {
    this.#file = file;
  }

  read(offset: number, lengthBytes: number): Promise<Uint8Array> {
    assert(lengthBytes <= SHORT_READ_BYTES_MAX, "a long read is not made with others");
    return new Promise((answer, fail) => {
      this.#waiting.push({ offset, lengthBytes, answer, fail });
      // The reads of this turn come before it.
      if (this.#waiting.length === 1) void Promise.resolve().then(() => this.#readAll());
    });
  }

  #readAll(): void {
    const asked = this.#waiting.sort((left, right) => left.offset - right.offset);
    this.#waiting = [];
    let group: Waiting[] = [];
    for (const one of asked) {
      if (group.length > 0 && !isNear(group, one)) {
        void this.#readGroup(group);
        group = [];
      }
      group.push(one);
    }
    void this.#readGroup(group);
  }

  async #readGroup(group: readonly Waiting[]): Promise<void> {
    const [from, to] = [group[0]!.offset, endOf(group.at(-1)!)];
    try {
      const bytes = await this.#file.read(from, to - from);
      for (const { offset, lengthBytes, answer } of group) answer(bytes.subarray(offset - from, offset - from + lengthBytes));
    } catch (thrown) {
      if (group.length === 1) group[0]!.fail(thrown);
      else for (const one of group) await this.#readGroup([one]);
    }
  }
}

const endOf = ({ offset, lengthBytes }: Waiting): number => offset + lengthBytes;

/** Of reads in the order of their offsets. One that overlaps the last has bytes of its own. */
function isNear(group: readonly Waiting[], next: Waiting): boolean {
  const gapBytes = next.offset - endOf(group.at(-1)!);
  return gapBytes >= 0 && gapBytes <= SHORT_READS_GAP_BYTES_MAX && endOf(next) - group[0]!.offset <= SHORT_READS_BYTES_MAX;
}
