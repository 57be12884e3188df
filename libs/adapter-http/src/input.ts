import type { IncomingMessage } from "node:http";

/** The received bytes of a body. node stops reading the socket when `bufferBytes` of them wait for the reader. */
export interface Input {
  /** All bytes that are there as one chunk; "empty": none yet; "broken": the client went away before the end. */
  take(): Buffer | "empty" | "end" | "broken";
  /** Resolves when `take` may say something else. */
  changed(): Promise<void>;
  /** Stops listening. */
  release(): void;
}

const EVENTS = ["readable", "end", "close", "error"] as const;

export function inputOf(incoming: IncomingMessage): Input {
  let wake: (() => void) | undefined;
  const changed = (): void => wake?.();
  for (const event of EVENTS) incoming.on(event, changed);
  return {
    take() {
      const blob = incoming.destroyed ? null : (incoming.read() as Buffer | null);
      if (blob !== null) return blob;
      if (incoming.complete && incoming.readableLength === 0) return "end";
      return incoming.destroyed || incoming.errored !== null ? "broken" : "empty";
    },
    changed: () => new Promise((resolve) => (wake = resolve)),
    release() {
      for (const event of EVENTS) incoming.off(event, changed);
    },
  };
}
