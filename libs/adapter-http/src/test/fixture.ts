// A real server on a real socket, with a clock that moves when the test says so.
import { connect, type Socket } from "node:net";
import { silentLog, type Clock, type HttpHandler, type HttpListener, type Metrics } from "@concord/runtime";
import { nodeHttpServer, type HttpLimits } from "../index.ts";
import type { HttpTls } from "../node-http-server.ts";

export interface ManualClock extends Clock {
  advance(ms: number): void;
  /** Set and not yet fired. */
  timers(): number;
}

export function manualClock(): ManualClock {
  let nowMs = 1_000_000;
  let timers: { atMs: number; action: () => void }[] = [];
  return {
    nowMs: () => nowMs,
    nowUs: () => BigInt(nowMs) * 1000n,
    monotonicMs: () => nowMs,
    setTimer(delayMs, action) {
      const timer = { atMs: nowMs + delayMs, action };
      timers.push(timer);
      return { cancel: () => void (timers = timers.filter((other) => other !== timer)) };
    },
    timers: () => timers.length,
    defer: (action) => void setImmediate(action),
    advance(ms) {
      const endMs = nowMs + ms;
      for (;;) {
        const next = timers.toSorted((a, b) => a.atMs - b.atMs)[0];
        if (next === undefined || next.atMs > endMs) break;
        timers = timers.filter((other) => other !== next);
        nowMs = next.atMs;
        next.action();
      }
      nowMs = endMs;
    },
  };
}

export interface Fixture extends AsyncDisposable {
  readonly clock: ManualClock;
  readonly listener: HttpListener;
  /** Counted by reason. */
  readonly brokenOff: ReadonlyMap<string, number>;
  /** `from`: another address of this machine, 127.0.0.2 for example. */
  client(from?: string): Client;
  /** One request on a connection of its own; everything that came back until the connection ended. */
  exchange(text: string | Uint8Array): Promise<string>;
}

export async function serving(
  handler: HttpHandler,
  limits: Partial<HttpLimits> = {},
  tls?: HttpTls,
  tlsChanges?: (listener: (tls: HttpTls) => void) => void,
  isLeaving?: () => boolean,
): Promise<Fixture> {
  const clock = manualClock();
  const brokenOff = new Map<string, number>();
  const metrics: Metrics = {
    count: (_, value = 1, labels = {}) => void brokenOff.set(labels["reason"] ?? "", (brokenOff.get(labels["reason"] ?? "") ?? 0) + value),
    gauge: () => undefined,
    observe: () => undefined,
  };
  const server = nodeHttpServer({
    clock,
    log: silentLog,
    metrics,
    limits,
    ...(tls === undefined ? {} : { tls }),
    ...(tlsChanges === undefined ? {} : { tlsChanges }),
    ...(isLeaving === undefined ? {} : { isLeaving }),
  });
  const listener = await server.serve("127.0.0.1:0", handler);
  const clients: Client[] = [];
  const client = (from?: string): Client => {
    const made = new Client(Number(listener.address.split(":")[1]), from);
    clients.push(made);
    return made;
  };
  return {
    clock,
    listener,
    brokenOff,
    client,
    async exchange(text) {
      const one = client();
      one.send(text);
      return one.untilEnd();
    },
    async [Symbol.asyncDispose]() {
      for (const one of clients) one.socket.destroy();
      const drained = listener.drain(0);
      clock.advance(1);
      await drained;
    },
  };
}

/** A raw connection: what it received, as latin1. */
export class Client {
  readonly socket: Socket;
  received = "";
  ended = false;
  #wake: () => void = () => undefined;

  constructor(port: number, from = "127.0.0.1") {
    this.socket = connect({ port, host: "127.0.0.1", localAddress: from });
    this.socket.on("data", (bytes) => {
      this.received += bytes.toString("latin1");
      this.#wake();
    });
    this.socket.on("error", () => undefined);
    this.socket.on("close", () => {
      this.ended = true;
      this.#wake();
    });
  }

  send(text: string | Uint8Array): void {
    this.socket.write(typeof text === "string" ? Buffer.from(text, "latin1") : text);
  }

  async until(condition: (received: string) => boolean): Promise<string> {
    while (!condition(this.received) && !this.ended) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.received;
  }

  untilEnd(): Promise<string> {
    return this.until(() => false);
  }
}

/** "GET /x HTTP/1.1" with these header lines. */
export function head(line: string, ...headers: readonly string[]): string {
  return `${line} HTTP/1.1\r\n${["host: h", ...headers].join("\r\n")}\r\n\r\n`;
}

export function statusOf(received: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1] ?? 0);
}
