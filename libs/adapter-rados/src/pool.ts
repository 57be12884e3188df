/** One step of an atomic write of one object. A step that fails leaves the object as it was. */
export type WriteStep =
  /** Makes the object; `exists` when there is one. */
  | { readonly kind: "create" }
  /** Makes the object when there is none, as every step below that writes does. */
  | { readonly kind: "ensure" }
  /** The attribute has this value, else `mismatch`; `absent` of no object. */
  | { readonly kind: "expect-attribute"; readonly name: string; readonly value: Uint8Array }
  /** The key has this value, else `mismatch`; the empty value also means that there is no such key. `absent` of no object. */
  | { readonly kind: "expect-key"; readonly key: string; readonly value: Uint8Array }
  | { readonly kind: "set-attribute"; readonly name: string; readonly value: Uint8Array }
  | { readonly kind: "set-key"; readonly key: string; readonly value: Uint8Array }
  | { readonly kind: "remove-key"; readonly key: string }
  | { readonly kind: "write"; readonly at: number; readonly bytes: Uint8Array }
  /** Cuts the bytes off. */
  | { readonly kind: "empty" }
  /** `absent` of no object. */
  | { readonly kind: "remove" };

/** In all but `done` nothing was done. */
export type WriteAnswer = "done" | "exists" | "mismatch" | "absent";

export interface ObjectSpan {
  readonly attributes: ReadonlyMap<string, Uint8Array>;
  /** Shorter than asked for where the object ends. */
  readonly bytes: Uint8Array;
}

export interface KeyPage {
  readonly entries: readonly (readonly [key: string, value: Uint8Array])[];
  /** There may be more behind the last one. */
  readonly more: boolean;
}

/**
 * What a blob store needs of a RADOS pool. Writes of one object by one process happen in the order of the calls; each is durable on all
 * acting replicas when it resolves. Caller's bytes may change once the call returned.
 *
 * Errors: WRITE_TIMEOUT (unknown; it may still happen later), READ_TIMEOUT, STORAGE_FULL (applied: no), STORE_FAILED; DRAINING (applied: no) once it is
 * closed, or was given up while the process stops.
 */
export interface RadosPool {
  write(object: string, steps: readonly WriteStep[]): Promise<WriteAnswer>;
  /** Undefined: there is no such object. */
  read(object: string, at: number, lengthBytes: number): Promise<ObjectSpan | undefined>;
  /** Keys behind `after` in order of their bytes; none of an absent object. */
  keys(object: string, after: string, limit: number): Promise<KeyPage>;
  /** Undefined: no such key or no such object. */
  key(object: string, key: string): Promise<Uint8Array | undefined>;
  /** Waits for what is on its way, as long as the cluster answers. */
  close(): Promise<void>;
}
