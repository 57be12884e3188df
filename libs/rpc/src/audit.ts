import type { Clock, Log } from "@concord/runtime";
import type { Caller } from "./auth.ts";
import { requestIdField } from "./request-id.ts";

/** Lines about refused calls of one service in a window; what is more is counted in the next line. */
export const AUDIT_REFUSED_LINES_MAX = 10;
const WINDOW_MS = 1_000;

/** Of a call's context. */
export interface AuditedCall {
  readonly peer: string;
  readonly requestId: string | undefined;
}

/** One line of the log for each call of an operator, and for calls that a caller may not make. */
export class Audit {
  readonly #clock: Clock;
  readonly #log: Log;
  #endsAtMs = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #leftOut = 0;

  constructor(clock: Clock, log: Log) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Called after a call was answered, perhaps with a refusal that its handler made. */
  answered(caller: Caller, method: string, code: string, call: AuditedCall): void {
    const { role, name } = caller;
    if (role !== "operator") {
      if (code === "PERMISSION_DENIED") this.refused(caller, method, code, call);
      return;
    }
    const { peer, requestId } = call;
    this.#log.info("audit", { method, code, peer, role, caller: name ?? role, ...requestIdField(requestId) });
  }

  /** Undefined: the caller is not known. */
  refused(caller: Caller | undefined, method: string, code: string, { peer, requestId }: AuditedCall): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs >= this.#endsAtMs) [this.#endsAtMs, this.#lines] = [nowMs + WINDOW_MS, 0];
    if (this.#lines >= AUDIT_REFUSED_LINES_MAX) {
      this.#leftOut += 1;
      return;
    }
    this.#lines += 1;
    const { role, name } = caller ?? {};
    const who = role === undefined ? {} : { role, caller: name ?? role };
    const fields = { method, code, peer, ...who, ...requestIdField(requestId), leftOut: this.#leftOut };
    this.#leftOut = 0;
    this.#log.warn("audit: refused", fields);
  }
}
