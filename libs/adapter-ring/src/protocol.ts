import { ConcordError } from "@concord/runtime";
import { RING_PROTOCOL } from "./limits.ts";

/** PERMISSION_DENIED when `node` of the ring has another version than `self`, this one: the two must not mix. The text is for both logs. */
export function checkProtocol(node: string, protocol: number, self: string): void {
  if (protocol === RING_PROTOCOL) return;
  const text = `${node} has version ${protocol} of the ring's protocol, ${self} version ${RING_PROTOCOL}: stop all nodes of the ring, then start them with one version of Concord`;
  throw new ConcordError("PERMISSION_DENIED", text, { metadata: { theirs: String(protocol), ours: String(RING_PROTOCOL) } });
}
