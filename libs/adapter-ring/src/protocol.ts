import { ConcordError } from "@concord/runtime";
import { RING_PROTOCOL } from "./limits.ts";

/** PERMISSION_DENIED when a node of the ring has another version: the two must not mix. */
export function checkProtocol(node: string, protocol: number): void {
  if (protocol === RING_PROTOCOL) return;
  const text = `${node} has version ${protocol} of the ring's protocol, this node ${RING_PROTOCOL}: stop all nodes of the ring, then start them with one version of Concord`;
  throw new ConcordError("PERMISSION_DENIED", text, { metadata: { theirs: String(protocol), ours: String(RING_PROTOCOL) } });
}
