type Latin1Slice = (this: Uint8Array, start: number, end: number) => string;

/** What `toString("latin1")` of a Buffer calls. Without the Buffer in between a text takes a third of the time. */
const latin1Slice = (Buffer.prototype as unknown as { readonly latin1Slice: Latin1Slice }).latin1Slice;

/** The bytes from `start` to before `end`, a UTF-16 unit per byte. */
export function latin1Text(bytes: Uint8Array, start: number, end: number): string {
  return latin1Slice.call(bytes, start, end);
}

/** A key as a text of the same length, a UTF-16 unit per byte: maps find texts by content, and comparing texts compares the bytes. */
export function keyText(key: Uint8Array): string {
  return latin1Slice.call(key, 0, key.length);
}
