import type { LogBounds, LogTopic, MessageLog } from "@concord/ports";
import { REBUILD_PAGE } from "./limits.ts";
import { readStoredOrigin } from "./origin.ts";

/** The offset, within the bounds, of the message that was made of this input offset; undefined when it is not there. */
export async function findByInput(
  log: MessageLog,
  topic: LogTopic,
  partition: number,
  { start, end }: LogBounds,
  inputOffset: bigint,
): Promise<bigint | undefined> {
  // Retention may have passed the start meanwhile.
  const bounds = await log.bounds(topic, partition);
  let at = start < bounds.start ? bounds.start : start;
  while (at < end) {
    const { messages, next } = await log.read(topic, partition, at, REBUILD_PAGE);
    const found = messages.find((message) => message.offset < end && readStoredOrigin(message)?.inputOffset === inputOffset);
    if (found !== undefined) return found.offset;
    if (next === at) return undefined;
    at = next;
  }
  return undefined;
}
