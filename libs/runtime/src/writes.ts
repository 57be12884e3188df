import { ConcordError } from "./errors.ts";

/** Whether a service takes writes. Refused: its disk takes none, for the reason; what the service writes for itself is forgotten at its end. */
export type Writes = { readonly kind: "taken" } | { readonly kind: "refused"; readonly reason: string };

export const WRITES_TAKEN: Writes = { kind: "taken" };

/** STORE_FAILED, applied no: an operator has to make the disk take writes and start the service again. */
export function writeRefused(reason: string): ConcordError {
  return new ConcordError("STORE_FAILED", `only reads are served: ${reason}`, { applied: "no", metadata: { reason } });
}
