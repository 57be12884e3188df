import { Worker } from "node:worker_threads";
import {
  assert,
  ConcordError,
  DIGEST_BUFFER_BYTES,
  type Clock,
  type DigestName,
  type DigestThread,
  type Log,
  type ThreadDigests,
} from "@concord/runtime";
import type { DigestInput, DigestOutput } from "./digest-messages.ts";

/** Memory of bodies that have ended, kept for the next ones: 16 MiB. */
const SPARE_BUFFERS_MAX = 16;

/** After a thread has ended no other one is tried for so long. */
const RETRY_AFTER_MS = 60_000;

export interface NodeDigestThreadOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Of tests: another program. */
  readonly start?: () => Worker;
}

const startWorker = (): Worker => new Worker(new URL("digest-worker.ts", import.meta.url));

/**
 * A thread of this process, from its first body on; it keeps the process running while it has bodies. When it fails its bodies do, and for
 * RETRY_AFTER_MS there is none.
 */
export function nodeDigestThread({ clock, log, start = startWorker }: NodeDigestThreadOptions): DigestThread {
  let retryAtMs = -Infinity;
  const spare: SharedArrayBuffer[] = [];
  let thread: HashingThread | undefined;
  const memory: Memory = {
    take: () => spare.pop() ?? new SharedArrayBuffer(DIGEST_BUFFER_BYTES),
    giveBack: (buffer) => void (spare.length < SPARE_BUFFERS_MAX && spare.push(buffer)),
  };
  const onEnd = (ended: HashingThread, reason: string): void => {
    if (thread === ended) thread = undefined;
    retryAtMs = clock.monotonicMs() + RETRY_AFTER_MS;
    log.error("the thread that hashes bodies ended; uploads that it hashed fail, others are hashed by the main thread for a minute", {
      reason,
    });
  };
  return {
    begin(names) {
      if (thread === undefined && clock.monotonicMs() < retryAtMs) return undefined;
      thread ??= new HashingThread(start(), memory, onEnd);
      return thread.begin(names);
    },
  };
}

interface Memory {
  take(): SharedArrayBuffer;
  giveBack(buffer: SharedArrayBuffer): void;
}

class HashingThread {
  readonly #worker: Worker;
  readonly #memory: Memory;
  readonly #bodies = new Map<number, HashedBody>();
  #last = 0;

  constructor(worker: Worker, memory: Memory, onEnd: (thread: HashingThread, reason: string) => void) {
    this.#memory = memory;
    this.#worker = worker;
    this.#worker.on("message", (output: DigestOutput) => this.#bodies.get(output.body)?.heard(output));
    let reason = "";
    this.#worker.on("error", (thrown: unknown) => void (reason = String(thrown)));
    this.#worker.on("exit", (code) => {
      onEnd(this, reason === "" ? `exit ${code}` : reason);
      for (const body of this.#bodies.values()) body.failed();
    });
    this.#worker.unref();
  }

  begin(names: readonly DigestName[]): ThreadDigests {
    this.#last += 1;
    const number = this.#last;
    const tell = (input: DigestInput): void => this.#worker.postMessage(input);
    const body = new HashedBody(number, names, tell, this.#memory, () => this.#forget(number));
    this.#bodies.set(number, body);
    this.#worker.ref();
    return body;
  }

  #forget(number: number): void {
    this.#bodies.delete(number);
    if (this.#bodies.size === 0) this.#worker.unref();
  }
}

class HashedBody implements ThreadDigests {
  readonly #number: number;
  readonly #tell: (input: DigestInput) => void;
  readonly #memory: Memory;
  readonly #forget: () => void;
  /** Newest last. */
  readonly #buffers: SharedArrayBuffer[] = [];
  /** Added and not yet answered. */
  #hashing = 0;
  #digests: ReadonlyMap<DigestName, Uint8Array> | undefined;
  #isFilled = true;
  #state: "running" | "finished" | "failed" | "closed" = "running";
  #wake: (() => void) | undefined;

  constructor(number: number, names: readonly DigestName[], tell: (input: DigestInput) => void, memory: Memory, forget: () => void) {
    this.#number = number;
    this.#tell = tell;
    this.#memory = memory;
    this.#forget = forget;
    tell({ kind: "begin", body: number, names });
  }

  async buffer(): Promise<Uint8Array> {
    assert(this.#isFilled, "a buffer is added before the next one is asked for");
    if (this.#buffers.length < 2) this.#buffers.push(this.#memory.take());
    else {
      await this.#until(() => this.#hashing < 2);
      this.#buffers.push(this.#buffers.shift()!);
    }
    this.#isFilled = false;
    return new Uint8Array(this.#buffers.at(-1)!);
  }

  add(length: number): void {
    assert(!this.#isFilled && length <= DIGEST_BUFFER_BYTES, "what is added lies in the newest buffer");
    this.#isFilled = true;
    this.#hashing += 1;
    this.#tell({ kind: "add", body: this.#number, memory: this.#buffers.at(-1)!, length });
  }

  async finish(): Promise<ReadonlyMap<DigestName, Uint8Array>> {
    if (this.#state === "running") {
      this.#state = "finished";
      this.#tell({ kind: "finish", body: this.#number });
    }
    await this.#until(() => this.#digests !== undefined);
    return this.#digests!;
  }

  close(): void {
    if (this.#state === "closed") return;
    if (this.#state === "running") this.#tell({ kind: "forget", body: this.#number });
    this.#forget();
    // The memory of a body that was given up may still be read, by the thread or by a write that failed.
    if (this.#digests !== undefined) for (const buffer of this.#buffers) this.#memory.giveBack(buffer);
    this.#state = "closed";
  }

  heard(output: DigestOutput): void {
    if (output.kind === "added") this.#hashing -= 1;
    else this.#digests = output.digests;
    this.#wake?.();
  }

  failed(): void {
    this.#state = "failed";
    this.#wake?.();
  }

  /** One at a time. */
  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      if (this.#state === "failed") throw new ConcordError("STORE_FAILED", "the thread that hashes bodies ended", { applied: "no" });
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
