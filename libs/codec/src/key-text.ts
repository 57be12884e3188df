/** A key as a text of the same length, a UTF-16 unit per byte: maps find texts by content, and comparing texts compares the bytes. */
export function keyText(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");
}
