import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const LOOK_MS = 100;

export interface LogLine {
  readonly message: string;
  readonly address?: string;
  readonly httpAddress?: string;
  readonly for?: string;
  readonly reason?: string;
}

/** A server program from its first log line on, also before it serves. Its standard output is a pipe; it has an admin port. */
export class StartingProgram {
  readonly child: ChildProcess;
  /** Exit code and signal. */
  readonly exited: Promise<unknown[]>;
  readonly #lines: LogLine[] = [];
  #hasEnded = false;
  #changed = Promise.withResolvers<void>();

  constructor(child: ChildProcess) {
    this.child = child;
    this.exited = once(child, "exit");
    child.stderr?.resume();
    const lines = createInterface({ input: child.stdout! });
    lines.on("line", (line) => {
      this.#lines.push(JSON.parse(line) as LogLine);
      this.#wake();
    });
    lines.on("close", () => {
      this.#hasEnded = true;
      this.#wake();
    });
  }

  /** The first line that fits, also one of before; an assertion with all lines when the program ends without one. */
  async line(fits: (line: LogLine) => boolean): Promise<LogLine> {
    for (;;) {
      const found = this.#lines.find(fits);
      if (found !== undefined) return found;
      assert.ok(!this.#hasEnded, `the program ended:\n${JSON.stringify(this.#lines, undefined, 1)}`);
      await this.#changed.promise;
    }
  }

  named(message: string): Promise<LogLine> {
    return this.line((line) => line.message === message);
  }

  async get(page: string): Promise<{ readonly status: number; readonly text: string }> {
    const { address } = await this.named("admin");
    const response = await fetch(`http://${address}/${page}`, { headers: { connection: "close" } });
    return { status: response.status, text: await response.text() };
  }

  /** Resolves when log and /readyz (503) name what the start waits for, with a reason, and /healthz is 200. */
  async reportsWaitFor(what: string): Promise<void> {
    await this.line(({ message, for: waited, reason }) => message === "the start waits" && waited === what && reason !== "");
    for (;;) {
      const { status, text } = await this.get("readyz");
      assert.equal(status, 503);
      if (text.includes(`${what} (`)) break;
      await sleep(LOOK_MS);
    }
    assert.equal((await this.get("healthz")).status, 200);
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
