import { ConcordError, type CallContext, type CallOptions, type MethodDescriptor } from "@concord/runtime";
import type { Connection, Dependent } from "./connection.ts";
import type { Incarnation } from "./incarnation.ts";
import type { SimListener } from "./listener.ts";
import type { CallNetwork } from "./call-network.ts";
import { decodeError, encodeError } from "./wire-error.ts";

/** One unary call: the request may be lost, the answer may be lost, the caller's deadline is the only sign of either. */
export function callUnary(
  connection: Connection,
  network: CallNetwork,
  method: MethodDescriptor,
  request: object,
  options: CallOptions,
): Promise<object> {
  const { client } = connection;
  if (client.isDead) return new Promise(() => undefined);
  if (!(options.timeoutMs > 0))
    return Promise.reject(new ConcordError("DEADLINE_EXCEEDED", "no time is left for the call", { applied: "no" }));
  const bytes = method.encodeRequest(request);
  const label = `${method.path} #${network.nextCallId()}`;
  return new Promise((resolve, reject) => {
    let isSettled = false;
    const finish = (settle: () => void): void => {
      if (isSettled) return;
      isSettled = true;
      deadline.action = undefined;
      connection.clientSide.delete(dependent);
      options.signal?.removeEventListener("abort", abort);
      served.leave();
      settle();
    };
    const dependent: Dependent = { lost: (error) => finish(() => reject(error)) };
    const abort = (): void => finish(() => reject(new ConcordError("CANCELLED", `${method.path} was cancelled`)));
    const timedOut = (): void =>
      finish(() => reject(new ConcordError("DEADLINE_EXCEEDED", `${method.path} took over ${options.timeoutMs} ms`)));
    const deadline = network.scheduler.after(options.timeoutMs * 1000, () => client.run(timedOut));
    const served = new ServedCall(connection, network, method, label, options, {
      ok: (answer) => client.run(() => finish(() => resolve(method.decodeResponse(answer)))),
      error: (answer) => client.run(() => finish(() => reject(decodeError(answer)))),
    });
    connection.clientSide.add(dependent);
    if (options.signal?.aborted === true) {
      abort();
      return;
    }
    options.signal?.addEventListener("abort", abort, { once: true });
    network.deliver(connection, "to-server", label, bytes, () => served.arrive(bytes));
  });
}

interface Answers {
  ok(bytes: Uint8Array): void;
  error(bytes: Uint8Array): void;
}

/** The server's half of one unary call. */
class ServedCall {
  readonly #connection: Connection;
  readonly #network: CallNetwork;
  readonly #method: MethodDescriptor;
  readonly #label: string;
  readonly #options: CallOptions;
  readonly #answers: Answers;
  readonly #gone = new AbortController();

  constructor(
    connection: Connection,
    network: CallNetwork,
    method: MethodDescriptor,
    label: string,
    options: CallOptions,
    answers: Answers,
  ) {
    this.#connection = connection;
    this.#network = network;
    this.#method = method;
    this.#label = label;
    this.#options = options;
    this.#answers = answers;
  }

  arrive(bytes: Uint8Array): void {
    const listener = this.#connection.bind();
    const { server } = this.#connection;
    server?.run(() => this.#serve(listener, server, bytes), bytes.length);
  }

  /** The caller no longer waits: the server hears it unless the network is in the way. */
  leave(): void {
    const { client, serverNode, server } = this.#connection;
    const { links, scheduler } = this.#network;
    if (server === undefined || links.isBlocked(client.node, serverNode)) return;
    scheduler.after(links.delayUs(client.node, serverNode), () => server.run(() => this.#gone.abort()));
  }

  #serve(listener: SimListener | undefined, server: Incarnation, bytes: Uint8Array): void {
    const dependent: Dependent = { lost: () => this.#gone.abort() };
    this.#connection.serverSide.add(dependent);
    const deadline = this.#network.scheduler.after(this.#options.timeoutMs * 1000, () => server.run(() => this.#gone.abort()));
    const done = (kind: "ok" | "error", answer: Uint8Array): void => {
      deadline.action = undefined;
      this.#connection.serverSide.delete(dependent);
      if (server.isDead) return;
      this.#network.deliver(this.#connection, "to-client", `${this.#label} ${kind}`, answer, () => this.#answers[kind](answer));
    };
    const failed = (thrown: unknown): void => {
      this.#network.inspectError(server, this.#method.path, thrown);
      done("error", encodeError(thrown));
    };
    if (listener === undefined) {
      failed(new ConcordError("DRAINING", `${this.#connection.address} is going away`));
      return;
    }
    listener.call(this.#method, bytes, this.#context(server)).then((answer) => done("ok", answer), failed);
  }

  #context(server: Incarnation): CallContext {
    return {
      deadlineAtMs: this.#network.monotonicMs(server) + this.#options.timeoutMs,
      metadata: this.#options.metadata ?? {},
      peer: this.#connection.client.node,
      signal: this.#gone.signal,
    };
  }
}
