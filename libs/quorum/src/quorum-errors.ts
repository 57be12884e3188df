import { assert, ConcordError } from "@concord/runtime";
import type { Gathered } from "./gather.ts";

export type TooFew = Extract<Gathered<unknown>, { readonly kind: "too-few" }>;

/** Nothing was sent. */
export function tooFewReachable(reachable: number, needed: number): ConcordError {
  assert(reachable < needed, "a quorum that is reachable is asked");
  const metadata = { reachable: String(reachable), needed: String(needed) };
  return new ConcordError("REPLICAS_UNAVAILABLE", `${reachable} replicas are reachable, ${needed} are needed`, { metadata });
}

/** No replica acted on the write, and each one said so. */
export function neverApplied(result: TooFew): boolean {
  return result.answers === 0 && result.outstanding === 0 && result.failures.every((failure) => failure.applied === "no");
}

/** `untouched`: no replica acted (I4). */
export function writeError(result: TooFew, needed: number, untouched: boolean): ConcordError {
  assert(result.answers < needed, "a write with its quorum does not fail");
  assert(!untouched || neverApplied(result), "I4: a replica that may have acted is not denied");
  const metadata = { reasons: reasonsOf(result), confirmed: String(result.answers), needed: String(needed) };
  if (!untouched) {
    const text = `${result.answers} replicas confirmed the write, ${needed} are needed; it may be applied`;
    return new ConcordError("WRITE_TIMEOUT", text, { metadata });
  }
  const lasting = result.failures.find(({ code }) => code === "LIMIT_EXCEEDED" || code === "TIMESTAMP_OUT_OF_RANGE");
  return lasting ?? new ConcordError("REPLICAS_UNAVAILABLE", "too few replicas took the write; nothing was written", { metadata });
}

/** Copies were not taken back by a replica that had dropped tombstones since they were read (I11). */
export function staleCopies(replica: string): ConcordError {
  return new ConcordError("REPLICAS_UNAVAILABLE", `${replica} has dropped tombstones since the rows were read; read them again`, {
    metadata: { [STALE_COPIES]: replica },
  });
}

export function areStaleCopies(error: ConcordError): boolean {
  return STALE_COPIES in error.metadata;
}

const STALE_COPIES = "collectedAt";

/** What stands in the way for good (corrupt, too large) before what time may heal. */
export function readError(result: TooFew, needed: number): ConcordError {
  assert(result.answers < needed, "a read with its quorum does not fail");
  const lasting = result.failures.find((failure) => failure.code === "CORRUPT_DATA" || failure.code === "LIMIT_EXCEEDED");
  if (lasting !== undefined) return lasting;
  const metadata = { reasons: reasonsOf(result), answered: String(result.answers), needed: String(needed) };
  const refused = result.outstanding === 0 && result.failures.every((failure) => failure.applied === "no");
  const text = `${result.answers} replicas answered, ${needed} are needed`;
  return new ConcordError(refused ? "REPLICAS_UNAVAILABLE" : "READ_TIMEOUT", text, { metadata });
}

function reasonsOf(result: TooFew): string {
  const codes: string[] = result.failures.map((failure) => failure.code);
  return [...codes, ...Array.from({ length: result.outstanding }, () => "NO_ANSWER")].join(",");
}
