import { ConcordError } from "@concord/runtime";

/**
 * Version of the entries of the group log: 3 = rows beside the content, outcomes per flush. A coordinator that sends none is of before the
 * field: it would neither apply the rows of a tail nor append them again.
 */
export const GROUP_LOG_PROTOCOL = 3;

/** PERMISSION_DENIED when a coordinator that takes a group over has another version: its takeover would lose the tail's rows. */
export function checkGroupLogProtocol(protocol: number): void {
  if (protocol === GROUP_LOG_PROTOCOL) return;
  const text = `the coordinator has version ${protocol} of the group log's entries, this storage-proxy ${GROUP_LOG_PROTOCOL}: start coordinators and storage-proxies with one version of Concord`;
  throw new ConcordError("PERMISSION_DENIED", text, {
    applied: "no",
    metadata: { theirs: String(protocol), ours: String(GROUP_LOG_PROTOCOL) },
  });
}
