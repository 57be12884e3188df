import { parseOid, type Oid } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import { openEpoch, type EpochOptions, type GatewayEpoch } from "../reservation/gateway-epoch.ts";

/** The epoch this gateway takes names from. After another gateway closed it, the next take opens a new one; old names keep theirs (OGD3). */
export class EpochKeeper {
  readonly #options: Omit<EpochOptions, "onFenced">;
  #current: GatewayEpoch;
  #opening: Promise<GatewayEpoch> | undefined;
  readonly #own = new Map<number, GatewayEpoch>();

  private constructor(options: Omit<EpochOptions, "onFenced">, first: GatewayEpoch) {
    this.#options = options;
    this.#current = first;
    this.#own.set(first.epoch, first);
  }

  static async open(options: Omit<EpochOptions, "onFenced">): Promise<EpochKeeper> {
    return new EpochKeeper(options, await EpochKeeper.#openEpoch(options));
  }

  /** Epochs of this process that are open: recovery leaves them alone. */
  isOwn(epoch: number): boolean {
    return this.#own.get(epoch)?.state === "open";
  }

  get epoch(): number {
    return this.#current.epoch;
  }

  async take(): Promise<{ readonly oid: Oid; readonly epoch: GatewayEpoch }> {
    const epoch = this.#current.state === "fenced" ? await this.#reopen() : this.#current;
    return { oid: await epoch.take(), epoch };
  }

  fenced(oid: Oid): void {
    this.#own.get(parseOid(oid).epoch)?.fenced();
  }

  async stop(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    await this.#current.stop();
  }

  #reopen(): Promise<GatewayEpoch> {
    this.#opening ??= EpochKeeper.#openEpoch(this.#options)
      .then((opened) => {
        assert(this.#current.state === "fenced", "OGD3: an epoch is left once another gateway closed it");
        assert(opened.epoch > this.#current.epoch, "OGD3: an epoch follows those of its gateway before it");
        this.#current = opened;
        this.#own.set(opened.epoch, opened);
        return opened;
      })
      .catch((thrown: unknown) => {
        const cause = toConcordError(thrown);
        this.#options.log.warn("no new epoch could be opened", { reason: cause.message });
        throw cause;
      })
      .finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  static #openEpoch(options: Omit<EpochOptions, "onFenced">): Promise<GatewayEpoch> {
    return openEpoch({ ...options, onFenced: () => options.metrics.count("objects_epochs_fenced_total") });
  }
}
