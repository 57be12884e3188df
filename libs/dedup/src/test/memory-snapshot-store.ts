import type { SnapshotStore } from "../api.ts";

/** The reference of SnapshotStore: everything in memory, calls counted, faults on demand. */
export class MemorySnapshotStore implements SnapshotStore {
  readonly held = new Map<string, Uint8Array>();
  readonly calls: string[] = [];
  /** Instead of an answer: an error, or none at all. */
  fault: "none" | "refuses" | "hangs" = "none";

  async get(name: string, bytesMax: number): Promise<Uint8Array | undefined> {
    await this.#called(`get ${name}`);
    const bytes = this.held.get(name);
    if (bytes !== undefined && bytes.length > bytesMax) throw new Error(`${name} has ${bytes.length} bytes, more than ${bytesMax}`);
    return bytes;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    await this.#called(`put ${name}`);
    this.held.set(name, Uint8Array.from(bytes));
  }

  async list(): Promise<readonly string[]> {
    await this.#called("list");
    return [...this.held.keys()].toSorted();
  }

  async remove(name: string): Promise<void> {
    await this.#called(`remove ${name}`);
    this.held.delete(name);
  }

  names(prefix: string): readonly string[] {
    return [...this.held.keys()].filter((name) => name.startsWith(prefix)).toSorted();
  }

  #called(call: string): Promise<void> {
    this.calls.push(call);
    if (this.fault === "refuses") return Promise.reject(new Error("the snapshots' store refuses"));
    return this.fault === "hangs" ? new Promise(() => undefined) : Promise.resolve();
  }
}
