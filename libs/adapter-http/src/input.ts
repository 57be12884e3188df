import type { IncomingMessage } from "node:http";

/** The received bytes of a body. node stops reading the socket when `bufferBytes` of them wait for the reader. */
export interface Input {
  /** The next chunk as it came from the socket; "empty": none yet; "broken": the client went away before the end. */
  take(): Buffer | "empty" | "end" | "broken";
  /** Resolves when `take` may say something else. */
  changed(): Promise<void>;
  /** Stops listening. */
  release(): void;
}

const EVENTS = ["end", "close", "error"] as const;

/**
 * node hands chunks out as they are only while its stream flows; a read of a stream at rest copies all that waits into one. So the stream flows
 * for one chunk at a time.
 */
export function inputOf(incoming: IncomingMessage): Input {
  let wake: (() => void) | undefined;
  let received: Buffer[] = [];
  const changed = (): void => wake?.();
  const receive = (chunk: Buffer): void => {
    received.push(chunk);
    incoming.pause();
    changed();
  };
  const flowOnce = (): void => {
    incoming.resume();
    incoming.read();
    incoming.pause();
  };
  for (const event of EVENTS) incoming.on(event, changed);
  incoming.on("data", receive);
  incoming.pause();
  return {
    take() {
      if (incoming.destroyed) received = [];
      else if (received.length === 0) flowOnce();
      const chunk = received.shift();
      if (chunk !== undefined) return chunk;
      if (incoming.complete && incoming.readableLength === 0) return "end";
      return incoming.destroyed || incoming.errored !== null ? "broken" : "empty";
    },
    changed() {
      const wait = new Promise<void>((resolve) => (wake = resolve));
      incoming.resume();
      return wait;
    },
    release() {
      for (const event of EVENTS) incoming.off(event, changed);
      incoming.off("data", receive);
      incoming.pause();
    },
  };
}
