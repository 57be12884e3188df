import type { KeyValue, MessageLog } from "@concord/ports";
import { startAlone, type HostOptions, type Part, type Service, type ServiceHost } from "@concord/rpc";
import { assert, ConcordError, StopProgress, type Log, type StartWaits } from "@concord/runtime";
import type { Ingest } from "./ingest/ingest.ts";
import type { Partitions } from "./partitions/partitions.ts";
import type { Context } from "./context.ts";
import { HAND_OVER_SHARE } from "./limits.ts";

/** What is open in the data folder. */
export interface Store {
  /** Holds the data folder's lock. */
  readonly meta: KeyValue;
  readonly messages: MessageLog;
  readonly partitions: Partitions;
  readonly ingest: Ingest;
}

/** What the composition gives: the steps of the start, in order. */
export interface DedupWorkerServiceOptions {
  readonly log: Log;
  readonly startWaits: StartWaits;
  readonly drainGraceMs: number;
  /** Where messages are, for what waits for it. */
  readonly messagesAt: string;
  services(store: () => Store): readonly Service[];
  /** Of a host of its own. */
  readonly host: Omit<HostOptions, "services">;
  /** Takes the data folder's lock and checks what is in it. */
  openMeta(): Promise<KeyValue>;
  /** Ends its tries when the signal is aborted; reports why one failed. */
  openMessages(signal: AbortSignal, failed: (thrown: unknown) => void): Promise<MessageLog>;
  openStore(meta: KeyValue, messages: MessageLog): Store;
  /** After the last call. */
  close(): void;
}

interface Closable {
  close(): Promise<void>;
}

/** What is to be closed lives on the state, last opened first. */
type State =
  | { readonly kind: "new" | "opening" | "stopped" }
  | { readonly kind: "opened"; readonly opened: readonly Closable[] }
  | { readonly kind: "bound"; readonly opened: readonly Closable[]; readonly host: ServiceHost }
  | { readonly kind: "starting" | "serving"; readonly opened: readonly Closable[]; readonly host: ServiceHost; readonly store: Store };

/** One dedup-worker: bring every window up to its output, then serve; drain, finish the batches in flight, then close. */
export class DedupWorkerService implements Part<{ readonly address: string }> {
  readonly #options: DedupWorkerServiceOptions;
  readonly #stopping = new AbortController();
  readonly #progress: StopProgress;
  #state: State = { kind: "new" };
  #opened: Promise<readonly Service[]> | undefined;
  #served: Promise<{ readonly address: string }> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: DedupWorkerServiceOptions) {
    this.#options = options;
    this.#progress = options.host.stopProgress ?? new StopProgress();
  }

  /** Serving, and no partition has stopped. */
  get ready(): boolean {
    return this.#state.kind === "serving" && this.#state.host.ready && this.#state.store.partitions.ready;
  }

  /** Reasons why it is not ready once its messages are open, a line each. */
  get problems(): readonly string[] {
    return this.#state.kind === "serving" || this.#state.kind === "starting" ? this.#state.store.partitions.problems : [];
  }

  /** On a host of its own. Resolves when it serves; until then every call gets STARTING. Rejects when it must not start; then all is closed. */
  start(): Promise<{ readonly address: string }> {
    return startAlone(this, this.#options.host);
  }

  open(): Promise<readonly Service[]> {
    return (this.#opened = this.#open());
  }

  serve(host: ServiceHost): Promise<{ readonly address: string }> {
    this.#served = this.#serve(host).catch(async (thrown: unknown) => {
      await this.#close();
      throw thrown;
    });
    return this.#served;
  }

  /** Partitions are handed over to other workers of the log, if there are any; then new calls get DRAINING, calls in flight finish, batches in flight are published, all is closed. Never rejects; a second call waits for the first. */
  stop(): Promise<void> {
    this.#stopping.abort(new ConcordError("DRAINING", "stopped while it started", { applied: "no" }));
    return (this.#stopped ??= this.#stop());
  }

  async #open(): Promise<readonly Service[]> {
    this.#stopping.signal.throwIfAborted();
    assert(this.#state.kind === "new", "a service starts once");
    this.#state = { kind: "opening" };
    const meta = await this.#options.openMeta();
    this.#state = { kind: "opened", opened: [meta] };
    // The stop waits for it and closes it.
    this.#stopping.signal.throwIfAborted();
    return this.#options.services(() => this.#store());
  }

  async #serve(host: ServiceHost): Promise<{ readonly address: string }> {
    const { signal } = this.#stopping;
    if (signal.aborted) await host.drain(0);
    signal.throwIfAborted();
    assert(this.#state.kind === "opened", "a part opens before it serves");
    const [meta] = this.#state.opened as readonly [KeyValue];
    this.#state = { kind: "bound", opened: [meta], host };
    const { startWaits, messagesAt } = this.#options;
    const messages = await startWaits.during(messagesAt, (failed) => this.#options.openMessages(signal, failed));
    const opened = [messages, meta];
    this.#state = { kind: "bound", opened, host };
    signal.throwIfAborted();
    const store = this.#options.openStore(meta, messages);
    this.#state = { kind: "starting", opened, host, store };
    // Fence, then bring the window up to the output (DD9): no call is answered before that (I1).
    await startWaits.during("the windows of the partitions", () => store.partitions.start());
    signal.throwIfAborted();
    this.#state = { kind: "serving", opened, host, store };
    host.setServing();
    this.#options.log.info("serving", { address: host.address, partitions: messages.partitions });
    return { address: host.address };
  }

  async #stop(): Promise<void> {
    // A rebuild can take long; the start ends when its partitions stop.
    if (this.#state.kind === "starting") await this.#state.store.partitions.stop();
    await this.#progress.during("the start of the worker", async () => {
      await this.#opened?.catch(() => undefined);
      await this.#served?.catch(() => undefined);
    });
    await this.#close();
  }

  async #close(): Promise<void> {
    const state = this.#state;
    if (!("opened" in state)) {
      this.#state = { kind: "stopped" };
      return;
    }
    const { drainGraceMs } = this.#options;
    // While others take the partitions over, calls are still answered here or passed on.
    if (state.kind === "serving") await state.store.partitions.units.handOver(Math.floor(drainGraceMs * HAND_OVER_SHARE));
    // Calls first: they end with results as long as the partitions work.
    if (state.kind !== "opened")
      await state.host.drain(state.kind === "serving" ? Math.ceil(drainGraceMs * (1 - HAND_OVER_SHARE)) : drainGraceMs);
    if (state.kind === "starting" || state.kind === "serving") await state.store.partitions.stop();
    this.#state = { kind: "stopped" };
    this.#options.close();
    for (const open of state.opened)
      await this.#progress
        .during("the logs and stores of messages", () => open.close())
        .catch(() => this.#options.log.warn("a store did not close well"));
  }

  #store(): Store {
    if (this.#state.kind === "starting" || this.#state.kind === "serving") return this.#state.store;
    throw new ConcordError(this.#state.kind === "stopped" ? "DRAINING" : "STARTING", "the partitions are not open");
  }
}

/** The handlers' view of what is open. */
export function contextOf(known: Pick<Context, "environment" | "peers" | "sources" | "list">, store: () => Store): Context {
  return { ...known, log: () => store().messages, partitions: () => store().partitions, ingest: () => store().ingest };
}
