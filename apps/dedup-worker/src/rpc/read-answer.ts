import type { LogTopic, MessageLog } from "@concord/ports";
import type { LogMessage, ReadResponse } from "@concord/protos-dedup";
import type { Page } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import { READ_ANSWER_BYTES_MAX, READ_MESSAGE_BYTES_MAX, READ_PAGE_BYTES } from "../limits.ts";
import { messageToWire, wireBytes } from "./wire.ts";

/** A page that fits into one answer: what does not is left for the next one. LIMIT_EXCEEDED with its offset: a message that fits into none. */
export async function readAnswer(
  log: MessageLog,
  topic: LogTopic,
  partition: number,
  from: bigint,
  messagesMax: number,
): Promise<Page<ReadResponse>> {
  const page = await log.read(topic, partition, from, { messages: messagesMax, bytes: READ_PAGE_BYTES });
  const messages: LogMessage[] = [];
  let bytes = 0;
  for (const message of page.messages) {
    const wire = messageToWire(message);
    const wireLength = wireBytes(wire);
    if (bytes + wireLength > READ_ANSWER_BYTES_MAX && messages.length > 0)
      return { message: { messages, nextOffset: message.offset }, bytes };
    if (wireLength > READ_MESSAGE_BYTES_MAX) throw tooLarge(message.offset, wireLength);
    bytes += wireLength;
    messages.push(wire);
  }
  return { message: { messages, nextOffset: page.next }, bytes };
}

function tooLarge(offset: bigint, bytes: number): ConcordError {
  const text = `the message at offset ${offset} has ${bytes} bytes, a call's answer at most ${READ_MESSAGE_BYTES_MAX}: read it from its topic, or read on at offset ${offset + 1n}`;
  return new ConcordError("LIMIT_EXCEEDED", text, { metadata: { limit: "READ_MESSAGE_BYTES_MAX", offset: String(offset) } });
}
