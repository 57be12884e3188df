// How much each tenant may store. Rows know exactly what is stored; this counts what has been admitted since they were read, so one gateway
// never lets a tenant exceed its quota, and several by no more than the others admit between two of its reads.
import type { ObjectStore } from "@concord/objects";
import { ConcordError } from "@concord/runtime";
import { S3Error } from "@concord/s3";
import { QUOTA_BUCKETS_AT_ONCE, QUOTA_READ_EVERY_MS } from "../limits.ts";

export interface Amount {
  readonly objects: number;
  readonly bytes: number;
}

/** Undefined: as much as there is room for. */
export interface Quota {
  readonly objectsMax?: number | undefined;
  readonly bytesMax?: number | undefined;
}

export interface QuotasOptions {
  readonly quotaOf: (tenant: string) => Quota | undefined;
  readonly store: Pick<ObjectStore, "listBuckets" | "bucketUsage">;
  readonly monotonicMs: () => number;
}

/** For what is learned only on the way. QuotaExceeded when it does not fit. */
export type Take = (amount: Amount) => void;

const NOTHING: Amount = { objects: 0, bytes: 0 };
const sum = (a: Amount, b: Amount): Amount => ({ objects: a.objects + b.objects, bytes: a.bytes + b.bytes });
const less = (a: Amount, b: Amount): Amount => ({ objects: a.objects - b.objects, bytes: a.bytes - b.bytes });

export class Quotas {
  readonly #options: QuotasOptions;
  readonly #accounts = new Map<string, Account>();

  constructor(options: QuotasOptions) {
    this.#options = options;
  }

  /** Runs `action` when the amount fits into the quota of who owns the bucket; what it replaces counts until it is gone. QuotaExceeded. */
  during<Result>(owner: string, amount: Amount, action: () => Promise<Result>): Promise<Result> {
    const account = this.#accountOf(owner);
    return account === undefined ? action() : account.during(amount, action);
  }

  /** The same where the amount is learned in between: it is taken before the commit. */
  async duringLater<Result>(owner: string, action: (take: Take) => Promise<Result>): Promise<Result> {
    const account = this.#accountOf(owner);
    return await (account === undefined ? action(() => undefined) : account.duringLater(action));
  }

  #accountOf(owner: string): Account | undefined {
    const quota = this.#options.quotaOf(owner);
    if (quota?.objectsMax === undefined && quota?.bytesMax === undefined) {
      this.#accounts.delete(owner);
      return undefined;
    }
    let account = this.#accounts.get(owner);
    if (account === undefined) this.#accounts.set(owner, (account = new Account(owner, this.#options)));
    return account;
  }
}

class Account {
  readonly #owner: string;
  readonly #options: QuotasOptions;
  /** As rows said, and when they began to be read. */
  #stored: Amount = NOTHING;
  #readMs = Number.NEGATIVE_INFINITY;
  /** Admitted and under way. */
  #underway: Amount = NOTHING;
  /** Ended since rows began to be read: in them or not. */
  #ended: Amount = NOTHING;
  #reading: Promise<void> | undefined;

  constructor(owner: string, options: QuotasOptions) {
    this.#owner = owner;
    this.#options = options;
  }

  async during<Result>(amount: Amount, action: () => Promise<Result>): Promise<Result> {
    if (this.#options.monotonicMs() - this.#readMs > QUOTA_READ_EVERY_MS) await this.#read();
    // A read that began before may miss what was deleted since: refused is only what does not fit after one of its own.
    for (let attempt = 0; attempt < 2 && !this.#fits(amount); attempt += 1) await this.#read();
    this.#take(amount);
    return await this.#ending(amount, action);
  }

  async duringLater<Result>(action: (take: Take) => Promise<Result>): Promise<Result> {
    for (let attempt = 0; attempt < 2; attempt += 1) await this.#read();
    let taken = NOTHING;
    const take: Take = (amount) => {
      this.#take(amount);
      taken = sum(taken, amount);
    };
    try {
      return await action(take);
    } finally {
      this.#end(taken);
    }
  }

  async #ending<Result>(amount: Amount, action: () => Promise<Result>): Promise<Result> {
    try {
      return await action();
    } finally {
      this.#end(amount);
    }
  }

  #end(amount: Amount): void {
    this.#underway = less(this.#underway, amount);
    this.#ended = sum(this.#ended, amount);
  }

  #take(amount: Amount): void {
    if (!this.#fits(amount)) throw new S3Error("QuotaExceeded");
    this.#underway = sum(this.#underway, amount);
  }

  #fits(amount: Amount): boolean {
    const { objectsMax = Number.POSITIVE_INFINITY, bytesMax = Number.POSITIVE_INFINITY } = this.#options.quotaOf(this.#owner) ?? {};
    const { objects, bytes } = sum(sum(this.#stored, this.#underway), sum(this.#ended, amount));
    return objects <= objectsMax && bytes <= bytesMax;
  }

  #read(): Promise<void> {
    return (this.#reading ??= this.#readRows().finally(() => (this.#reading = undefined)));
  }

  /** What ended before it began is in the rows by then. */
  async #readRows(): Promise<void> {
    const [startedMs, before] = [this.#options.monotonicMs(), this.#ended];
    this.#stored = await usageOf(this.#owner, this.#options.store);
    this.#ended = less(this.#ended, before);
    this.#readMs = startedMs;
  }
}

async function usageOf(tenant: string, store: QuotasOptions["store"]): Promise<Amount> {
  const buckets = await store.listBuckets(tenant);
  let usage = NOTHING;
  for (let at = 0; at < buckets.length; at += QUOTA_BUCKETS_AT_ONCE) {
    const page = buckets.slice(at, at + QUOTA_BUCKETS_AT_ONCE);
    const found = await Promise.all(page.map(({ name }) => usageOrNone(name, store)));
    usage = found.reduce((total, { objects, bytes }) => sum(total, { objects: Number(objects), bytes: Number(bytes) }), usage);
  }
  return usage;
}

/** A bucket that was removed meanwhile was empty. */
async function usageOrNone(bucket: string, store: QuotasOptions["store"]): ReturnType<ObjectStore["bucketUsage"]> {
  try {
    return await store.bucketUsage(bucket);
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "BUCKET_UNKNOWN") return { objects: 0n, bytes: 0n };
    throw thrown;
  }
}
