import { ConcordError, NestedShares, type Metrics } from "@concord/runtime";
import type { ShareOwner } from "./places.ts";

/** Memory of a process for requests on their way in, shared by callers, addresses and connections. */
export class InputBudget {
  readonly #metrics: Metrics;
  readonly #bytesMax: number;
  readonly #shares: NestedShares;

  constructor(metrics: Metrics, bytesMax: number) {
    this.#metrics = metrics;
    this.#bytesMax = bytesMax;
    this.#shares = new NestedShares(bytesMax);
  }

  take({ name, connection }: ShareOwner, bytes: number): boolean {
    if (!this.#shares.take(name, connection, bytes)) return false;
    this.#metrics.gauge("rpc_server_request_bytes", this.#shares.used);
    return true;
  }

  giveBack({ name, connection }: ShareOwner, bytes: number): void {
    this.#shares.giveBack(name, connection, bytes);
    this.#metrics.gauge("rpc_server_request_bytes", this.#shares.used);
  }

  /** Why `take` returned false. */
  full(): ConcordError {
    const text = `requests of ${this.#shares.used} bytes are under way, and this caller has its share of them: repeat it later`;
    return new ConcordError("OVERLOADED", text, { metadata: { limit: "inputBufferBytes", value: String(this.#bytesMax) } });
  }
}
