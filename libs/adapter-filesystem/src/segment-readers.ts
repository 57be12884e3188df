import { assert, type Disk, type DiskFile } from "@concord/runtime";
import { SHORT_READ_BYTES_MAX } from "./limits.ts";
import { READ_ONLY } from "./segment-file.ts";
import { ShortReads } from "./short-reads.ts";

interface Shared {
  readonly opened: Promise<OpenedSegment | undefined>;
  readers: number;
}

interface OpenedSegment {
  readonly file: DiskFile;
  readonly short: ShortReads;
}

/**
 * Segments that are open for reading: all that read one at the same time share a handle. A path is never another segment's (I9), and a segment that
 * was removed meanwhile is read to the end.
 */
export class SegmentReaders {
  readonly #disk: Disk;
  readonly #shared = new Map<string, Shared>();

  constructor(disk: Disk) {
    this.#disk = disk;
  }

  /** Undefined: absent. The last close of those who share it closes the file. */
  async open(path: string): Promise<DiskFile | undefined> {
    const shared = this.#shared.get(path) ?? { opened: this.#open(path), readers: 0 };
    this.#shared.set(path, shared);
    shared.readers += 1;
    try {
      const opened = await shared.opened;
      if (opened !== undefined) return this.#readerOf(path, shared, opened);
    } catch (thrown) {
      this.#leave(path, shared);
      throw thrown;
    }
    this.#leave(path, shared);
    return undefined;
  }

  async #open(path: string): Promise<OpenedSegment | undefined> {
    const file = await this.#disk.open(path);
    return file && { file, short: new ShortReads(file) };
  }

  #readerOf(path: string, shared: Shared, { file, short }: OpenedSegment): DiskFile {
    let isOpen = true;
    return {
      size: file.size,
      read: (offset, length, into) =>
        into === undefined && length <= SHORT_READ_BYTES_MAX ? short.read(offset, length) : file.read(offset, length, into),
      close: async () => {
        if (!isOpen) return;
        isOpen = false;
        if (this.#leave(path, shared)) await file.close();
      },
      ...READ_ONLY,
    };
  }

  /** True: it was the last one. The next to come opens the file again. */
  #leave(path: string, shared: Shared): boolean {
    assert(shared.readers > 0, "a handle has as many readers as opened it");
    shared.readers -= 1;
    if (shared.readers > 0) return false;
    assert(this.#shared.get(path) === shared, "a handle is shared until its last reader leaves");
    return this.#shared.delete(path);
  }
}
