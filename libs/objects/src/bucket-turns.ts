import { assert, ConcordError } from "@concord/runtime";

/**
 * One making, change or removal of a bucket at a time in this gateway: clients that repeat one sooner than it ends would overtake their own
 * requests for ever. A request whose client is gone waits no longer: what such clients left behind would keep all others waiting until they are gone, too.
 */
export class BucketTurns {
  readonly #running = new Map<string, Promise<unknown>>();

  /** CANCELLED, not applied: `signal` was aborted before its turn. */
  async run<Answer>(bucket: string, work: () => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    for (let before = this.#running.get(bucket); before !== undefined; before = this.#running.get(bucket)) {
      await endOf(before, signal);
      if (signal?.aborted === true)
        throw new ConcordError("CANCELLED", "the client went away while others changed the bucket", { applied: "no" });
    }
    assert(!this.#running.has(bucket), "one request of a gateway changes a bucket at a time");
    const running = work().finally(() => {
      assert(this.#running.delete(bucket), "a turn ends once");
    });
    this.#running.set(bucket, running);
    return running;
  }
}

/** Of either. */
async function endOf(running: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  const ended = running.catch(() => undefined);
  if (signal === undefined) {
    await ended;
    return;
  }
  let stop: () => void = () => undefined;
  const aborted = new Promise<void>((resolve) => (stop = resolve));
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  await Promise.race([ended, aborted]);
  signal.removeEventListener("abort", stop);
}
