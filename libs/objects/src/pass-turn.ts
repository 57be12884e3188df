import { sameVersion, type RowVersion } from "@concord/ports";
import { assert } from "@concord/runtime";
import { partsOfGuid } from "@concord/snowflake";
import type { ObjectStoreContext } from "./context.ts";
import { isNewer } from "./versions.ts";

export interface PassTurnOptions {
  readonly context: ObjectStoreContext;
  /** Another gateway's pass is taken over when its row has stood still for so long, milliseconds. */
  readonly deadAfterMs: number;
  /** No other gateway has these rows: a pass that this process did not begin is one of an earlier process. */
  readonly isAlone: boolean;
}

/** Who goes on with a pass that gateways make one at a time, in the background: the one that has it replaces its row after each page. */
export class PassTurn {
  readonly #options: PassTurnOptions;
  /** The version that this gateway wrote last, or saw at that time of its own clock. */
  #own: RowVersion | undefined;
  #seen: { readonly version: RowVersion; readonly sinceMs: number } | undefined;
  /** Of this gateway's name; undefined: not asked yet. */
  #workerId: number | undefined;

  constructor(options: PassTurnOptions) {
    this.#options = options;
  }

  /** This gateway replaced the row by this version. */
  wrote(version: RowVersion): void {
    assert(this.#own === undefined || isNewer(version, this.#own), "I7: the row of a pass goes on");
    this.#own = version;
  }

  /** Whether the pass of the row with this version is this gateway's; one that is not is left alone while its row changes. */
  async isOurs(version: RowVersion): Promise<boolean> {
    if (sameVersion(version, this.#own) || (await this.#isOfEarlierLife(version))) return true;
    const nowMs = this.#options.context.clock.monotonicMs();
    if (this.#seen === undefined || !sameVersion(this.#seen.version, version)) this.#seen = { version, sinceMs: nowMs };
    return nowMs - this.#seen.sinceMs >= this.#options.deadAfterMs;
  }

  /**
   * Written by a process of this gateway's name: worker ids are leased by name, and the one before is gone or fenced. Its pass goes on at once. A
   * clock that was set back changes the worker id: then only a gateway that is alone knows.
   */
  async #isOfEarlierLife({ guid }: RowVersion): Promise<boolean> {
    if (this.#options.isAlone) return true;
    this.#workerId ??= partsOfGuid(await this.#options.context.guids.next()).workerId;
    return this.#own === undefined && partsOfGuid(guid).workerId === this.#workerId;
  }
}
