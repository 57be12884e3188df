import type { MessageSink, SinkAnswer, SinkMessage } from "@concord/ports";
import { ConcordError } from "@concord/runtime";

/** A dedup-worker in one page: each id once. Its answers can be lost, and it can be away. */
export class RecordingSink implements MessageSink {
  readonly out: SinkMessage[] = [];
  calls = 0;
  /** What becomes of the next calls, in order; later ones are answered. */
  #fates: ("lost" | "away" | "refused" | "open")[] = [];
  isAway = false;

  nextFates(...fates: readonly ("lost" | "away" | "refused" | "open")[]): void {
    this.#fates = [...fates];
  }

  get texts(): readonly string[] {
    return this.out.map(({ value }) => new TextDecoder().decode(value));
  }

  send(messages: readonly SinkMessage[]): Promise<readonly SinkAnswer[]> {
    this.calls += 1;
    const fate = this.isAway ? "away" : this.#fates.shift();
    if (fate === "away") return Promise.reject(new ConcordError("CONNECTION_LOST", "no worker", { applied: "no" }));
    if (fate === "refused" || fate === "open") return Promise.resolve(messages.map(() => fate));
    const answers = messages.map((message): SinkAnswer => {
      if (this.out.some(({ id }) => id === message.id)) return "duplicate";
      this.out.push(message);
      return "accepted";
    });
    if (fate === "lost") return Promise.reject(new ConcordError("CONNECTION_LOST", "the answer was lost", { applied: "unknown" }));
    return Promise.resolve(answers);
  }
}
