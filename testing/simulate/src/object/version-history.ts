// Versions that clients made and removed: what must be there at the end, and what must not.
import type { World } from "@concord/simulation";

/** Written and removed by version; not among the keys that are checked as registers, since a removal brings an older value back. */
export const VERSION_KEYS: readonly string[] = ["versions/1", "versions/2"];

export interface MadeVersion {
  readonly key: string;
  readonly id: string;
  readonly etag: string;
}

/** What a read by version id found; undefined: no such version. */
export type VersionRead = (version: MadeVersion) => Promise<{ readonly etag: string } | undefined>;

export class VersionHistory {
  readonly #world: World;
  readonly #present = new Map<string, MadeVersion>();
  readonly #removed = new Map<string, MadeVersion>();

  constructor(world: World) {
    this.#world = world;
  }

  /** A write of which the answer told the version. */
  made(version: MadeVersion): void {
    this.#present.set(nameOf(version), version);
  }

  /** Before its removal is sent: from then on it may be gone. */
  removing(version: MadeVersion): void {
    this.#present.delete(nameOf(version));
  }

  removed(version: MadeVersion): void {
    this.#removed.set(nameOf(version), version);
  }

  /** Suspended from now on: null versions are replaced. */
  forgetNull(): void {
    for (const [name, { id }] of this.#present) if (id === "null") this.#present.delete(name);
  }

  /** When all is quiet. */
  async judge(read: VersionRead): Promise<void> {
    for (const version of this.#present.values()) {
      const found = await read(version);
      if (found?.etag !== version.etag)
        this.#world.violation("version lost", `${nameOf(version)}: ${found?.etag ?? "gone"}, not ${version.etag}`);
    }
    for (const version of this.#removed.values())
      if ((await read(version)) !== undefined) this.#world.violation("version stays", `${nameOf(version)} was removed`);
    this.#world.count("object:versions-kept", this.#present.size);
    this.#world.count("object:versions-removed", this.#removed.size);
  }
}

const nameOf = ({ key, id }: MadeVersion): string => `${key}?versionId=${id}`;
