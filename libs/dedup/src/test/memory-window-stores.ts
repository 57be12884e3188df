import type { WindowStores } from "../api.ts";
import { MemoryKeyValue, type KeyValueImage } from "@concord/port-contracts";
import type { KeyValue } from "@concord/ports";

/** The reference of WindowStores: everything in memory; knows what is synced, so that a test can cut the power. */
export class MemoryWindowStores implements WindowStores {
  readonly #open = new Map<string, MemoryKeyValue>();
  readonly #disks = new Map<string, KeyValueImage>();

  async open(name: string): Promise<KeyValue> {
    const store = new MemoryKeyValue(this.#disk(name));
    this.#open.set(name, store);
    return store;
  }

  async remove(name: string): Promise<void> {
    this.#open.delete(name);
    this.#disks.delete(name);
  }

  async list(): Promise<readonly string[]> {
    return [...new Set([...this.#open.keys(), ...this.#disks.keys()])];
  }

  /** What a power cut leaves (`synced` only), or the death of the process alone (all that was written). */
  restart(cut: "power" | "process"): MemoryWindowStores {
    const stores = new MemoryWindowStores();
    for (const [name, disk] of this.#disks) stores.#disks.set(name, disk);
    for (const [name, store] of this.#open) {
      stores.#disks.set(name, cut === "power" ? store.crash() : { entries: store.contents() });
    }
    return stores;
  }

  /** What is on disk, for tests that look at it or damage it. The store is closed. */
  disk(name: string): KeyValueImage | undefined {
    return this.#disks.get(name);
  }

  damage(name: string, change: (disk: KeyValueImage) => KeyValueImage): void {
    this.#disks.set(name, change(this.#disk(name)));
  }

  #disk(name: string): KeyValueImage {
    const open = this.#open.get(name);
    return open === undefined ? (this.#disks.get(name) ?? { entries: [] }) : { entries: open.contents() };
  }
}
