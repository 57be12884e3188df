import type { LogTopic, MessageLog } from "@concord/ports";
import type { LogMessage, ReadResponse } from "@concord/protos-dedup";
import { READ_ANSWER_BYTES_MAX, READ_PAGE_BYTES } from "../limits.ts";
import { messageToWire, wireBytes } from "./wire.ts";

/** A page that fits into one answer: what does not is left for the next one. */
export async function readAnswer(
  log: MessageLog,
  topic: LogTopic,
  partition: number,
  from: bigint,
  messagesMax: number,
): Promise<ReadResponse> {
  const page = await log.read(topic, partition, from, { messages: messagesMax, bytes: READ_PAGE_BYTES });
  const messages: LogMessage[] = [];
  let bytes = 0;
  for (const message of page.messages) {
    const wire = messageToWire(message);
    bytes += wireBytes(wire);
    if (bytes > READ_ANSWER_BYTES_MAX && messages.length > 0) return { messages, nextOffset: message.offset };
    messages.push(wire);
  }
  return { messages, nextOffset: page.next };
}
