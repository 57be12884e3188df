import { every, Task, type Clock, type Tasks } from "@concord/runtime";

/** Pause between two reads: a replaced text is in force within this time. */
export const TEXT_READ_EVERY_MS = 30_000;

export interface WatchedTextOptions {
  /** Name of the task that reads it. */
  readonly name: string;
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  /** The text in force. */
  readonly text: string;
  readonly read: () => string;
  /** Brings a text into force that differs from the one before; throws when it cannot be used, and the one before stays. */
  readonly take: (text: string) => void;
  /** Reports a text that cannot be read or used, once. */
  readonly refused: (reason: string) => void;
}

/** A text of the configuration that is read again and again while the program runs. */
export class WatchedText {
  readonly #options: WatchedTextOptions;
  readonly #task: Task;
  #inForce: string;
  /** The text read last; empty: it could not be read. */
  #read = "";
  #refused: string | undefined;

  constructor(options: WatchedTextOptions) {
    this.#options = options;
    this.#inForce = options.text;
    this.#task = new Task({
      ...options,
      firstAfterMs: TEXT_READ_EVERY_MS,
      ...every(TEXT_READ_EVERY_MS, async () => this.#look()),
      failed: ({ message }) => this.#refuse(message),
    });
    this.#task.start();
  }

  close(): void {
    void this.#task.stop();
  }

  #look(): void {
    this.#read = "";
    this.#read = this.#options.read();
    if (this.#read === this.#inForce) return;
    this.#options.take(this.#read);
    this.#inForce = this.#read;
  }

  #refuse(reason: string): void {
    if (this.#refused === this.#read) return;
    this.#refused = this.#read;
    this.#options.refused(reason);
  }
}
