import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";

const CHUNK_LINES = 1024;
/** Lines kept for the report of a violation when the whole text is not asked for. */
const RECENT_CHUNKS = 2;

/**
 * Everything that happened, one line each: messages, durable writes, faults, log lines, lifecycle. Equal seeds give equal bytes (I1).
 * The hash covers every line; the text is kept only when asked for.
 */
export class Trace {
  readonly #hash = createHash("sha256");
  readonly #keep: boolean;
  readonly #chunks: string[] = [];
  #lines: string[] = [];
  #count = 0;

  constructor(keep: boolean) {
    this.#keep = keep;
  }

  get lineCount(): number {
    return this.#count;
  }

  line(nowUs: number, text: string): void {
    this.#lines.push(`${stamp(nowUs)} ${text}`);
    this.#count += 1;
    if (this.#lines.length >= CHUNK_LINES) this.#flush();
  }

  /** The whole trace when kept, else its last lines. */
  text(): string {
    this.#flush();
    return this.#chunks.join("");
  }

  digest(): string {
    this.#flush();
    return this.#hash.copy().digest("hex");
  }

  #flush(): void {
    if (this.#lines.length === 0) return;
    const chunk = `${this.#lines.join("\n")}\n`;
    this.#lines = [];
    this.#hash.update(chunk);
    this.#chunks.push(chunk);
    if (!this.#keep && this.#chunks.length > RECENT_CHUNKS) this.#chunks.shift();
  }
}

/** Length and checksum of a payload, as traces show it. */
export function fingerprint(bytes: Uint8Array): string {
  return `${bytes.length}b ${crc32(bytes).toString(16).padStart(8, "0")}`;
}

function stamp(nowUs: number): string {
  const seconds = Math.floor(nowUs / 1_000_000);
  return `${seconds}.${String(nowUs - seconds * 1_000_000).padStart(6, "0")}`;
}
