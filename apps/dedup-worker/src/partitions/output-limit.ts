// New messages are refused while a partition's window needs all output that may be kept (DDD10).
import type { MessageLog, OutputUse } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { OUTPUT_FULL_RETRY_MS } from "../limits.ts";

export function isFull({ neededBytes, bytesMax }: OutputUse): boolean {
  return neededBytes > bytesMax;
}

/** STORAGE_FULL, applied no; undefined: the partition takes messages, as far as its output goes. */
export function outputRefusal(log: Pick<MessageLog, "outputUse">, partition: number): ConcordError | undefined {
  const use = log.outputUse?.(partition);
  if (use === undefined || !isFull(use)) return undefined;
  const { neededBytes, bytesMax } = use;
  const text =
    `partition ${partition}: the window needs ${neededBytes} bytes of output to be rebuilt, and outputRetentionBytes is ${bytesMax}: ` +
    "raise it, or lower windowIdsMax or windowMaxAgeMs; messages are taken again when old ids are forgotten";
  return new ConcordError("STORAGE_FULL", text, {
    applied: "no",
    metadata: { partition: String(partition), limit: "outputRetentionBytes", value: String(bytesMax) },
    retryAfterMs: OUTPUT_FULL_RETRY_MS,
  });
}
