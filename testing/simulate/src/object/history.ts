// What clients did to each key and what they were answered, in the form the checker takes.
import { createHash } from "node:crypto";
import type { RegisterEffect } from "@concord/checkers";
import type { World } from "@concord/simulation";
import type { Outcomes } from "../outcomes.ts";
import { RegisterHistory } from "../register-history.ts";

export const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("hex");

/** What an operation wrote: its bytes, undefined for those of another operation (a copy), and the ETag where it is known. */
interface Written {
  readonly body: Uint8Array | undefined;
  readonly etag: string | undefined;
}

export interface ReadObject {
  /** The operation that wrote it, by its own word. */
  readonly mark: string;
  readonly etag: string;
  readonly bytes: Uint8Array;
  readonly offset: number;
  /** Of the whole object. */
  readonly size: number;
}

function holds(body: Uint8Array, { bytes, offset, size }: ReadObject): boolean {
  return body.length === size && Buffer.compare(body.subarray(offset, offset + bytes.length), bytes) === 0;
}

/** Histories of registers, one per key; values are the names of the operations that wrote them. */
export class ObjectHistory {
  readonly #world: World;
  readonly #registers: RegisterHistory;
  readonly #written = new Map<string, Written>();

  constructor(world: World) {
    this.#world = world;
    this.#registers = new RegisterHistory(world, "object");
  }

  get outcomes(): Outcomes {
    return this.#registers.outcomes;
  }

  /** Before it is sent: whatever becomes of it, these are the bytes of `mark`. */
  intend(mark: string, body: Uint8Array | undefined, etag?: string): void {
    this.#written.set(mark, { body, etag });
  }

  etagOf(mark: string): string | undefined {
    return this.#written.get(mark)?.etag;
  }

  done(key: string, name: string, startedAt: number, effect: RegisterEffect): void {
    this.#registers.done(key, name, startedAt, effect);
  }

  /** It may have happened, or happen later. */
  unknown(key: string, name: string, startedAt: number, effect: RegisterEffect): void {
    this.#registers.unknown(key, name, startedAt, effect);
  }

  /** It certainly changed nothing. */
  failed(): void {
    this.#registers.failed();
  }

  /** Only its ETag was seen. */
  sawEtag(key: string, name: string, startedAt: number, etag: string): void {
    const accepts = (value: string | undefined): boolean => {
      const known = value === undefined ? undefined : this.#written.get(value);
      return known !== undefined && (known.etag === undefined || known.etag === etag);
    };
    this.done(key, name, startedAt, { kind: "read", accepts, found: `an object with ETag ${etag}` });
  }

  sawNothing(key: string, name: string, startedAt: number): void {
    this.done(key, name, startedAt, { kind: "read", accepts: (value) => value === undefined, found: "nothing" });
  }

  sawSomething(key: string, name: string, startedAt: number): void {
    this.done(key, name, startedAt, { kind: "read", accepts: (value) => value !== undefined, found: "some object" });
  }

  /** Every byte must be one of those its writer sent. */
  sawObject(key: string, name: string, startedAt: number, object: ReadObject): void {
    const written = this.#written.get(object.mark);
    const candidates = written?.body === undefined ? [...this.#written.values()].map(({ body }) => body) : [written.body];
    const isWhole = written !== undefined && candidates.some((body) => body !== undefined && holds(body, object));
    if (!isWhole) this.#world.violation("object bytes", `${name} of ${key}: ${object.bytes.length} bytes that ${object.mark} never wrote`);
    if (written?.etag !== undefined && written.etag !== object.etag)
      this.#world.violation("object etag", `${name} of ${key}: ETag ${object.etag}, ${object.mark} has ${written.etag}`);
    this.done(key, name, startedAt, { kind: "read", accepts: (value) => value === object.mark, found: object.mark });
  }

  judge(): void {
    this.#registers.judge();
  }
}
