import { MountedService, type Authenticator, type MountedServiceOptions, type Part, type SharedHost } from "@concord/rpc";
import { assert, backoffMs, ConcordError, sleep, toConcordError, type Clock, type Log, type Metrics } from "@concord/runtime";
import { isDamage } from "./causes.ts";
import { PART_RETRY } from "./limits.ts";
import type { PartName } from "./part-configs.ts";

export interface Address {
  readonly address: string;
}

export type PartState =
  | { readonly kind: "starting" | "serving" | "stopped" }
  /** It stopped, or does not start, because a part that it needs is out. */
  | { readonly kind: "waiting"; readonly for: PartName }
  /** It failed this many times in a row, and is tried again; `damaged`: only a repair mends its files. */
  | { readonly kind: "out"; readonly reason: string; readonly failures: number; readonly damaged: boolean };

/** `first`: the first try of the program's start. `again`: the part is tried again and has not served yet. */
export type Phase = "first" | "again" | "served";

export interface SupervisedPartOptions<A extends Address, P extends Part<A>> {
  readonly name: PartName;
  /** Makes a part that has not been opened; it calls `onFailed` when it cannot go on. */
  readonly make: (onFailed: (cause: ConcordError) => void) => P;
  readonly contracts: readonly MountedServiceOptions["contract"][];
  /** The part without which it cannot serve. */
  readonly needs?: Needed;
  /** The operator's next step when it is out, because of damage or for another reason. */
  readonly advice: { readonly damaged: string; readonly otherwise: string };
  /** Other nodes serve the same: a refusal sends callers to them. */
  readonly hasPeers: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly authenticator: Authenticator;
  /** Failures that end the program. */
  readonly isFatal: (cause: unknown, phase: Phase) => boolean;
  /** Called with a fatal failure of a part that has served; one of a start rejects it. */
  readonly onFatal: (cause: ConcordError) => void;
}

/** A part as the one that needs it sees it. */
export interface Needed {
  readonly name: PartName;
  readonly state: PartState;
  readonly problem: string | undefined;
  readonly damaged: Needed | undefined;
  /** `change` is called after every change; returns what ends that. */
  onChange(change: () => void): () => void;
  /** `lose` is awaited before the part is stopped. */
  beforeStop(lose: () => Promise<void>): void;
}

/** One try of a part, from its making to its stop. */
interface Life<P> {
  readonly part: P;
  /** Resolves with the reason why it has to end. */
  readonly failed: Promise<ConcordError>;
  fail(cause: ConcordError): void;
  isServed: boolean;
}

/**
 * A part that ends without its neighbours: when it cannot open or fails, its calls are answered with the reason, it is stopped, which releases
 * its locks, and a new one is made after a growing pause. A part that needs it stops before it and waits for it.
 */
export class SupervisedPart<A extends Address, P extends Part<A>> implements Needed {
  readonly name: PartName;
  /** They stay mounted while parts come and go. */
  readonly services: readonly MountedService[];
  readonly #options: SupervisedPartOptions<A, P>;
  readonly #stopping = new AbortController();
  readonly #losers: (() => Promise<void>)[] = [];
  readonly #listeners = new Set<() => void>();
  /** The first life serves, or the part is out or waits. */
  readonly #settled = Promise.withResolvers<A | undefined>();
  #state: PartState = { kind: "starting" };
  #life: Life<P> | undefined;
  #run: Promise<void> | undefined;
  #failures = 0;
  #phase: Phase = "first";
  #servesSinceMs = Infinity;

  constructor(options: SupervisedPartOptions<A, P>) {
    this.name = options.name;
    this.#options = options;
    const { contracts, authenticator } = options;
    this.services = contracts.map(
      (contract) =>
        new MountedService({ contract, authenticator, absence: () => this.#absence(), isOut: () => this.problem !== undefined }),
    );
    this.#life = this.#newLife();
    this.#become({ kind: "starting" });
    options.needs?.beforeStop(() => this.#lose());
  }

  get state(): PartState {
    return this.#state;
  }

  get ready(): boolean {
    return this.#state.kind === "serving" && this.#life?.part.ready === true;
  }

  /** The part of this life; undefined between two. */
  get part(): P | undefined {
    return this.#life?.part;
  }

  /** For callers and operators: what is wrong and what to do; undefined: nothing. */
  get problem(): string | undefined {
    const state = this.#state;
    if (state.kind === "waiting") return `${this.name} waits for ${state.for}, which is out`;
    return state.kind === "out" ? `${this.name} is out: ${state.reason}; ${this.#advice(state.damaged)}` : undefined;
  }

  /** The part whose damaged files keep this one from serving, often itself; undefined: none do. */
  get damaged(): Needed | undefined {
    const state = this.#state;
    if (state.kind === "waiting") return this.#options.needs?.damaged;
    return state.kind === "out" && state.damaged ? this : undefined;
  }

  #advice(isDamaged: boolean): string {
    const { damaged, otherwise } = this.#options.advice;
    return isDamaged ? damaged : otherwise;
  }

  onChange(change: () => void): () => void {
    this.#listeners.add(change);
    return () => void this.#listeners.delete(change);
  }

  beforeStop(lose: () => Promise<void>): void {
    this.#losers.push(lose);
  }

  /** Opens the first life: its locks are taken before any address is. Rejects when the program must not start. */
  async open(): Promise<void> {
    try {
      await this.#openLife(this.#life!);
    } catch (thrown) {
      if (this.#stopping.signal.aborted || this.#options.isFatal(thrown, "first")) throw thrown;
      await this.#leave(thrown);
    }
  }

  /** Resolves when it serves, or is out or waits (undefined) and will be tried again. Rejects when the program must not start. */
  serve(host: SharedHost): Promise<A | undefined> {
    this.#run = this.#lives(host).catch((thrown: unknown) => this.#settled.reject(thrown));
    return this.#settled.promise;
  }

  /** Never rejects; a second call waits for the first. */
  async stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("CANCELLED", "the program is stopped", { applied: "no" }));
    const life = this.#life;
    await life?.part.stop();
    life?.fail(this.#stopping.signal.reason as ConcordError);
    await this.#run;
    this.#become({ kind: "stopped" });
  }

  async #lives(host: SharedHost): Promise<void> {
    const { clock, isFatal, onFatal } = this.#options;
    const { signal } = this.#stopping;
    for (;;) {
      if (this.#state.kind === "out") await sleep(clock, backoffMs(PART_RETRY, this.#failures), signal);
      await this.#whenNeededServes();
      signal.throwIfAborted();
      const cause = await this.#live(host);
      signal.throwIfAborted();
      if (isFatal(cause, this.#phase)) {
        if (this.#phase === "first") throw cause;
        return onFatal(toConcordError(cause));
      }
      await this.#leave(cause);
    }
  }

  /** One life to its failure, which it returns. */
  async #live(host: SharedHost): Promise<unknown> {
    try {
      const isOpen = this.#life !== undefined;
      const life = (this.#life ??= this.#newLife());
      if (!isOpen) await this.#openLife(life);
      life.isServed = true;
      const served = life.part.serve(host.hostOf(this.services));
      // A failure ends a start, too; the stop that follows makes the start reject.
      const outcome = await Promise.race([served.then((addresses) => ({ addresses })), life.failed]);
      void served.catch(() => undefined);
      if (!("addresses" in outcome)) return outcome;
      this.#begin(outcome.addresses);
      return await life.failed;
    } catch (thrown) {
      return thrown;
    }
  }

  #begin(addresses: A): void {
    this.#phase = "served";
    this.#servesSinceMs = this.#options.clock.monotonicMs();
    if (this.#failures > 0) this.#options.log.info("the part serves again", { failures: this.#failures });
    this.#become({ kind: "serving" });
    this.#settled.resolve(addresses);
  }

  #newLife(): Life<P> {
    const failed = Promise.withResolvers<ConcordError>();
    const part = this.#options.make((cause) => failed.resolve(cause));
    return { part, failed: failed.promise, fail: (cause) => failed.resolve(cause), isServed: false };
  }

  async #openLife({ part }: Life<P>): Promise<void> {
    for (const service of await part.open()) {
      const mounted = this.services.find(({ name }) => name === service.name);
      assert(mounted !== undefined, `${service.name} is among the contracts of ${this.name}`);
      mounted.mount(service);
    }
  }

  async #leave(cause: unknown): Promise<void> {
    const { needs, log, metrics, clock } = this.#options;
    // A part that fails soon after each start is not tried ever faster.
    if (clock.monotonicMs() - this.#servesSinceMs >= PART_RETRY.maxMs) this.#failures = 0;
    this.#servesSinceMs = Infinity;
    if (this.#phase === "first") this.#phase = "again";
    if (needs === undefined || needs.state.kind === "serving") {
      const reason = toConcordError(cause).message;
      const damaged = isDamage(cause);
      this.#failures += 1;
      metrics.count("part_failures_total", 1, { part: this.name });
      log.error("the part is out, the others serve; it is tried again", {
        reason,
        advice: this.#advice(damaged),
        failures: this.#failures,
      });
      this.#become({ kind: "out", reason, failures: this.#failures, damaged });
    } else this.#become({ kind: "waiting", for: needs.name });
    this.#settled.resolve(undefined);
    // First the part that needs it: what it has in flight ends while its stores still answer.
    for (const lose of this.#losers) await lose();
    await this.#life?.part.stop();
    for (const service of this.services) service.mount(undefined);
    this.#life = undefined;
    this.#notify();
  }

  /** Resolves when this life has ended because the part that it needs does. */
  async #lose(): Promise<void> {
    const life = this.#life;
    if (life?.isServed !== true) return;
    life.fail(new ConcordError("STARTING", `${this.#options.needs!.name} is out`, { applied: "no" }));
    await this.#until(this, () => this.#life !== life);
  }

  async #whenNeededServes(): Promise<void> {
    const { needs } = this.#options;
    if (needs === undefined) return;
    await this.#until(needs, () => {
      const isOut = needs.state.kind === "out" || needs.state.kind === "waiting";
      if (isOut && this.#state.kind !== "waiting") this.#become({ kind: "waiting", for: needs.name });
      if (isOut) this.#settled.resolve(undefined);
      return needs.state.kind === "serving";
    });
  }

  /** Resolves when `holds`, or the program stops. */
  async #until(changing: Pick<Needed, "onChange">, holds: () => boolean): Promise<void> {
    const { signal } = this.#stopping;
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = (): void => {
      if (signal.aborted || holds()) resolve();
    };
    const forget = changing.onChange(look);
    signal.addEventListener("abort", look);
    look();
    await promise;
    forget();
    signal.removeEventListener("abort", look);
  }

  #become(state: PartState): void {
    this.#state = state;
    this.#options.metrics.gauge("part_up", state.kind === "serving" ? 1 : 0, { part: this.name });
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }

  /**
   * Applied no. STARTING: a later try may be served. CORRUPT_DATA: none is, here or at another node, before an operator has mended the files of
   * this part or of the one that it waits for.
   */
  #absence(): ConcordError {
    const { damaged, problem, name } = this;
    if (damaged === undefined || this.#options.hasPeers)
      return new ConcordError("STARTING", problem ?? `${name} is not ready yet`, { retryAfterMs: PART_RETRY.initialMs });
    const text = damaged === this ? problem! : `${problem}: ${damaged.problem}`;
    return new ConcordError("CORRUPT_DATA", text, { metadata: { part: damaged.name } });
  }
}
