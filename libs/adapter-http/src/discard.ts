import type { IncomingMessage } from "node:http";
import type { Clock } from "@concord/runtime";
import { inputOf } from "./input.ts";
import type { HttpLimits } from "./limits.ts";

/**
 * Reads the rest of an unread body, within limits; true when it reached the end. Closing a connection with bytes unread makes
 * the client's side throw the answer away with them.
 */
export async function discardRest(incoming: IncomingMessage, clock: Clock, limits: HttpLimits): Promise<boolean> {
  const input = inputOf(incoming);
  let isLate = false;
  let late = (): void => undefined;
  const timer = clock.setTimer(limits.discardMs, () => {
    isLate = true;
    late();
  });
  try {
    for (let leftBytes = limits.discardBytesMax; leftBytes >= 0 && !isLate;) {
      const blob = input.take();
      if (blob === "end" || blob === "broken") return blob === "end";
      if (blob === "empty") await Promise.race([input.changed(), new Promise<void>((resolve) => (late = resolve))]);
      else leftBytes -= blob.length;
    }
    return false;
  } finally {
    timer.cancel();
    input.release();
  }
}
