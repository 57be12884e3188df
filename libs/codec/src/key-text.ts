const CHUNK_BYTES = 4096;

/** A key as a text of the same length, a UTF-16 unit per byte: maps find texts by content, and comparing texts compares the bytes. */
export function keyText(key: Uint8Array): string {
  if (key.length <= CHUNK_BYTES) return String.fromCharCode.apply(null, key as unknown as number[]);
  let text = "";
  for (let at = 0; at < key.length; at += CHUNK_BYTES) text += keyText(key.subarray(at, at + CHUNK_BYTES));
  return text;
}
