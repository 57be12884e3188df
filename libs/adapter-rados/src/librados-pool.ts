import { getSystemErrorName } from "node:util";
import { ConcordError, type Clock, type Timer } from "@concord/runtime";
import { loadLibrados, type Librados } from "./librados.ts";
import { CONNECT_TIMEOUT_S, KEEP_ALIVE_MS, OPERATIONS_MAX, OPERATION_TIMEOUT_S, STOP_SILENCE_MS } from "./limits.ts";
import type { KeyPage, ObjectSpan, RadosPool, WriteAnswer, WriteStep } from "./pool.ts";

const EQUAL = 1;
const EXCLUSIVE = 1;
const [ENOENT, EEXIST, ENOSPC, ETIMEDOUT, EDQUOT, ECANCELED] = [-2, -17, -28, -110, -122, -125] as const;

export interface RadosOptions {
  /** Path of ceph.conf: monitors and keyring. */
  readonly conf: string;
  /** "client.admin" without its type. */
  readonly user: string;
  readonly pool: string;
  /** Objects of other namespaces of the pool are not seen. */
  readonly namespace: string;
  /** Of the timer that keeps the process while an operation is on its way. */
  readonly clock: Clock;
  /** OPERATION_TIMEOUT_S if absent. */
  readonly operationTimeoutS?: number;
  /** `graceMs` after the signal, a cluster that does not answer is waited for no longer than STOP_SILENCE_MS allows. If absent, only `close` begins that. */
  readonly stopping?: { readonly signal: AbortSignal; readonly graceMs: number };
}

/** Connects. STORE_FAILED (applied: no) with what is wrong: no monitor answers, no such pool, no permission, librados is missing. */
export async function connectPool(options: RadosOptions): Promise<RadosPool> {
  const rados = await loadLibrados();
  const { functions } = rados;
  const handle = new BigUint64Array(1);
  check(functions.create(handle, "ceph", `client.${options.user}`, 0), "a client of Ceph cannot be made");
  const cluster = handle[0]!;
  try {
    check(functions.readConf(cluster, options.conf), `${options.conf} cannot be read`);
    const timeoutS = String(options.operationTimeoutS ?? OPERATION_TIMEOUT_S);
    const settings = { client_mount_timeout: String(CONNECT_TIMEOUT_S), rados_mon_op_timeout: timeoutS, rados_osd_op_timeout: timeoutS };
    for (const [name, value] of Object.entries(settings)) check(functions.setConf(cluster, name, value), `setting ${name}`);
    const connect = await called<number>(rados, (done) => functions.connect.async(cluster, done));
    check(connect, `no monitor of ${options.conf} answers as client.${options.user}`);
    const context = new BigUint64Array(1);
    const created = await called<number>(rados, (done) => functions.createContext.async(cluster, options.pool, context, done));
    check(created, `pool ${options.pool}`);
    functions.setNamespace(context[0]!, options.namespace);
    return new LibradosPool(rados, options, cluster, context[0]!);
  } catch (thrown) {
    await called<void>(rados, (done) => functions.shutdown.async(cluster, done));
    throw thrown;
  }
}

function closedPool(): ConcordError {
  return new ConcordError("DRAINING", "objects in RADOS: the process stops", { applied: "no" });
}

function check(result: number, what: string): void {
  if (result < 0) throw new ConcordError("STORE_FAILED", `objects in RADOS: ${what}: ${getSystemErrorName(result)}`, { applied: "no" });
}

/**
 * A worker thread of koffi makes the call; its arguments are values or kept by the caller. It blocks while a monitor is silent, and Node joins its worker
 * threads before it exits: meanwhile the process ends without that.
 */
async function called<Result>(
  { functions }: Librados,
  call: (done: (error: Error | null, result: Result) => void) => void,
): Promise<Result> {
  const exit = (code: number): void => functions.exit(code);
  process.once("exit", exit);
  try {
    return await new Promise<Result>((resolve, reject) => call((error, result) => (error === null ? resolve(result) : reject(error))));
  } finally {
    process.off("exit", exit);
  }
}

interface Operation {
  /** Memory that the library writes to: referenced from here until the answer came (koffi keeps nothing). */
  readonly memory: readonly object[];
  readonly submit: (completion: bigint) => number;
  readonly release: () => void;
}

/** An operation on its way. */
interface Pending extends Operation {
  readonly completion: bigint;
  readonly resolve: (result: number) => void;
}

class LibradosPool implements RadosPool {
  readonly #rados: Librados;
  readonly #clock: Clock;
  readonly #cluster: bigint;
  readonly #context: bigint;
  readonly #pending = new Map<bigint, Pending>();
  readonly #waiting: (() => void)[] = [];
  readonly #callback: { readonly pointer: bigint; release(): void };
  #lastId = 0n;
  #keepAlive: Timer | undefined;
  #whenEnded: (() => void) | undefined;
  #isClosed = false;
  /** The process stops and the cluster does not answer: nothing more is sent. */
  #isSilent = false;
  #watch: Timer | undefined;

  constructor(rados: Librados, { clock, stopping }: RadosOptions, cluster: bigint, context: bigint) {
    this.#rados = rados;
    this.#clock = clock;
    this.#cluster = cluster;
    this.#context = context;
    this.#callback = rados.onComplete((id) => this.#completed(id));
    stopping?.signal.addEventListener("abort", () => this.#watchFrom(stopping.graceMs));
  }

  async write(object: string, steps: readonly WriteStep[]): Promise<WriteAnswer> {
    const { functions } = this.#rados;
    // The library copies the steps' bytes here, before anything is awaited.
    const operation = functions.createWrite();
    for (const step of steps) this.#addStep(operation, step);
    const result = await this.#operate({
      memory: [],
      submit: (completion) => functions.operateWrite(operation, this.#context, completion, object, null, 0),
      release: () => functions.releaseWrite(operation),
    });
    return answerOf(object, result);
  }

  async read(object: string, at: number, lengthBytes: number): Promise<ObjectSpan | undefined> {
    const { functions, address } = this.#rados;
    const into = new Uint8Array(lengthBytes);
    const [count, iterator] = [new BigUint64Array(1), new BigUint64Array(1)];
    const operation = functions.createRead();
    // A read of no bytes is an error of the cluster.
    if (lengthBytes > 0) functions.readBytes(operation, at, lengthBytes, address(into), address(count), null);
    functions.readAttributes(operation, address(iterator), null);
    const found = await this.#read(object, operation, [into, count, iterator]);
    const attributes = found ? this.#attributes(iterator[0]!) : new Map<string, Uint8Array>();
    return found ? { attributes, bytes: into.subarray(0, Number(count[0])) } : undefined;
  }

  async keys(object: string, after: string, limit: number): Promise<KeyPage> {
    const { functions, address } = this.#rados;
    const [iterator, more] = [new BigUint64Array(1), new Uint8Array(1)];
    const operation = functions.createRead();
    functions.readKeys(operation, after, "", limit, address(iterator), address(more), null);
    const found = await this.#read(object, operation, [iterator, more]);
    return found ? { entries: this.#entries(iterator[0]!), more: more[0] !== 0 } : { entries: [], more: false };
  }

  async key(object: string, key: string): Promise<Uint8Array | undefined> {
    const { functions, address } = this.#rados;
    const iterator = new BigUint64Array(1);
    const list = this.#listOf(Buffer.from(key));
    const operation = functions.createRead();
    functions.readKeysByName(operation, list.pointers, 1, list.lengths, address(iterator), null);
    const found = await this.#read(object, operation, [iterator, list]);
    return found ? this.#entries(iterator[0]!)[0]?.[1] : undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#startWaiting();
    if (this.#pending.size > 0 && !this.#isSilent) {
      this.#watchFrom(0);
      await new Promise<void>((resolve) => (this.#whenEnded = resolve));
    }
    this.#watch?.cancel();
    const { functions } = this.#rados;
    // The library still writes answers to memory of this process.
    if (this.#pending.size > 0) return void process.once("exit", (code) => functions.exit(code));
    functions.destroyContext(this.#context);
    await called<void>(this.#rados, (done) => functions.shutdown.async(this.#cluster, done));
    this.#callback.release();
  }

  #watchFrom(delayMs: number): void {
    this.#watch?.cancel();
    this.#watch = this.#clock.setTimer(delayMs, () => this.#watchSilence(this.#lastId));
  }

  /** Gives up when an operation up to `lastId` has no answer at the end of the time. */
  #watchSilence(lastId: bigint): void {
    this.#watch = this.#clock.setTimer(STOP_SILENCE_MS, () => {
      const [oldest] = this.#pending.keys();
      if (oldest === undefined || oldest > lastId) this.#watchSilence(this.#lastId);
      else this.#giveUp();
    });
  }

  /** Operations end as by a time-out now; their answers may come later. */
  #giveUp(): void {
    this.#isSilent = true;
    for (const { resolve } of this.#pending.values()) resolve(ETIMEDOUT);
    this.#startWaiting();
    this.#whenEnded?.();
  }

  #startWaiting(): void {
    for (const start of this.#waiting.splice(0)) start();
  }

  #addStep(operation: bigint, step: WriteStep): void {
    const { functions } = this.#rados;
    switch (step.kind) {
      case "create":
        return functions.writeCreate(operation, EXCLUSIVE, null);
      case "ensure":
        return functions.writeCreate(operation, 0, null);
      case "expect-attribute":
        return functions.writeCompareAttribute(operation, step.name, EQUAL, step.value, step.value.length);
      case "expect-key": {
        const keyBytes = Buffer.byteLength(step.key);
        return functions.writeCompareKey(operation, step.key, EQUAL, step.value, keyBytes, step.value.length, null);
      }
      case "set-attribute":
        return functions.writeSetAttribute(operation, step.name, step.value, step.value.length);
      case "set-key": {
        const [key, value] = [this.#listOf(Buffer.from(step.key)), this.#listOf(step.value)];
        return functions.writeSetKeys(operation, key.pointers, value.pointers, key.lengths, value.lengths, 1);
      }
      case "remove-key": {
        const key = this.#listOf(Buffer.from(step.key));
        return functions.writeRemoveKeys(operation, key.pointers, key.lengths, 1);
      }
      case "write":
        return functions.writeBytes(operation, step.bytes, step.bytes.length, step.at);
      case "empty":
        return functions.writeTruncate(operation, 0);
      case "remove":
        return functions.writeRemove(operation);
    }
  }

  /** C arrays of one element. `bytes` must live as long as they do. */
  #listOf(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly pointers: BigUint64Array; readonly lengths: BigUint64Array } {
    const pointer = bytes.length === 0 ? 0n : this.#rados.address(bytes);
    return { bytes, pointers: BigUint64Array.of(pointer), lengths: BigUint64Array.of(BigInt(bytes.length)) };
  }

  /** False: there is no such object. */
  async #read(object: string, operation: bigint, memory: readonly object[]): Promise<boolean> {
    const { functions } = this.#rados;
    const result = await this.#operate({
      memory,
      submit: (completion) => functions.operateRead(operation, this.#context, completion, object, 0),
      release: () => functions.releaseRead(operation),
    });
    if (result === ENOENT) return false;
    if (result === ETIMEDOUT) throw new ConcordError("READ_TIMEOUT", `the cluster did not answer in time when ${object} was read`);
    if (result < 0) throw failed(object, result, "no");
    return true;
  }

  /** Operations are submitted in the order of the calls: at once while there is room, else when an earlier one ends. */
  #operate(operation: Operation): Promise<number> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        try {
          this.#submit(operation, resolve);
        } catch (thrown) {
          operation.release();
          reject(thrown);
        }
      };
      if (this.#pending.size < OPERATIONS_MAX || this.#isClosed || this.#isSilent) start();
      else this.#waiting.push(start);
    });
  }

  #submit(operation: Operation, resolve: (result: number) => void): void {
    // The library's memory is gone after `close`.
    if (this.#isClosed || this.#isSilent) throw closedPool();
    const id = ++this.#lastId;
    const handle = new BigUint64Array(1);
    check(this.#rados.functions.createCompletion(id, this.#callback.pointer, handle), "no completion");
    if (this.#keepAlive === undefined) this.#stayAlive();
    this.#pending.set(id, { ...operation, completion: handle[0]!, resolve });
    const result = operation.submit(handle[0]!);
    if (result < 0) this.#end(id, result);
  }

  #stayAlive(): void {
    this.#keepAlive = this.#clock.setTimer(KEEP_ALIVE_MS, () => this.#stayAlive());
  }

  #completed(id: bigint): void {
    const pending = this.#pending.get(id);
    if (pending !== undefined) this.#end(id, this.#rados.functions.returnValue(pending.completion));
  }

  #end(id: bigint, result: number): void {
    const { completion, release, resolve } = this.#pending.get(id)!;
    this.#pending.delete(id);
    this.#rados.functions.releaseCompletion(completion);
    release();
    resolve(result);
    this.#waiting.shift()?.();
    if (this.#pending.size > 0) return;
    this.#keepAlive?.cancel();
    this.#keepAlive = undefined;
    this.#whenEnded?.();
  }

  #attributes(iterator: bigint): Map<string, Uint8Array> {
    const { functions, copy } = this.#rados;
    const [name, value, length] = [new BigUint64Array(1), new BigUint64Array(1), new BigUint64Array(1)];
    const found = new Map<string, Uint8Array>();
    for (;;) {
      check(functions.nextAttribute(iterator, name, value, length), "attributes");
      if (name[0] === 0n) break;
      const text = Buffer.from(copy(name[0]!, Number(functions.stringLength(name[0]!)))).toString();
      found.set(text, copy(value[0]!, Number(length[0])));
    }
    functions.endAttributes(iterator);
    return found;
  }

  #entries(iterator: bigint): [string, Uint8Array][] {
    const { functions, copy } = this.#rados;
    const [key, value, keyBytes, valueBytes] = [0, 0, 0, 0].map(() => new BigUint64Array(1)) as Four<BigUint64Array>;
    const found: [string, Uint8Array][] = [];
    for (;;) {
      check(functions.nextKey(iterator, key, value, keyBytes, valueBytes), "keys");
      if (key[0] === 0n) break;
      found.push([Buffer.from(copy(key[0]!, Number(keyBytes[0]))).toString(), copy(value[0]!, Number(valueBytes[0]))]);
    }
    functions.endKeys(iterator);
    return found;
  }
}

type Four<Value> = [Value, Value, Value, Value];

function answerOf(object: string, result: number): WriteAnswer {
  if (result >= 0) return "done";
  if (result === EEXIST) return "exists";
  if (result === ECANCELED) return "mismatch";
  if (result === ENOENT) return "absent";
  if (result === ENOSPC || result === EDQUOT) throw new ConcordError("STORAGE_FULL", "the Ceph pool is full");
  if (result === ETIMEDOUT) throw new ConcordError("WRITE_TIMEOUT", `the cluster did not answer in time when ${object} was written`);
  throw failed(object, result, "unknown");
}

function failed(object: string, result: number, applied: "no" | "unknown"): ConcordError {
  return new ConcordError("STORE_FAILED", `${object} in RADOS: ${getSystemErrorName(result)}`, { applied });
}
