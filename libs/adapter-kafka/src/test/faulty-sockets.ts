// Connections that fail at one request, by the number of its API: before it is sent, after the broker has it, or never again an answer.
import { connect, type Socket } from "node:net";
import type { ISocketFactory } from "kafkajs";

export type SocketFault = "request-lost" | "answer-lost" | "hangs";

export const API = { Produce: 0, OffsetCommit: 8, AddPartitionsToTxn: 24, AddOffsetsToTxn: 25, EndTxn: 26, TxnOffsetCommit: 28 } as const;

const API_AT = 4;

export class FaultySockets {
  /** Faults that were made. */
  made = 0;
  #next: { readonly api: number; readonly fault: SocketFault } | undefined;
  #before = 0;

  /** The next request of this API fails so. */
  failNext(api: number, fault: SocketFault): void {
    this.failAfter(api, 0, fault);
  }

  /** The request of this API fails so that so many others come before. */
  failAfter(api: number, before: number, fault: SocketFault): void {
    this.#next = { api, fault };
    this.#before = before;
  }

  readonly factory: ISocketFactory = ({ host, port, onConnect }) => {
    const socket = connect({ host, port }, onConnect);
    const write = socket.write.bind(socket) as (bytes: Buffer) => boolean;
    let isDeaf = false;
    const on = socket.on.bind(socket);
    socket.on = ((event: string, listener: (...given: unknown[]) => void): Socket =>
      on(event, (...given: unknown[]) => {
        if (event !== "data" || !isDeaf) listener(...given);
      })) as Socket["on"];
    socket.write = ((bytes: Buffer): boolean => {
      const fault = bytes.readInt16BE(API_AT) === this.#next?.api ? this.#next.fault : undefined;
      if (fault === undefined || this.#before-- > 0) return write(bytes);
      this.#next = undefined;
      this.made += 1;
      if (fault === "request-lost") return socket.destroy(new Error("the test cut the connection")).writable;
      isDeaf = true;
      if (fault === "answer-lost") on("data", () => socket.destroy(new Error("the test cut the connection")));
      return write(bytes);
    }) as Socket["write"];
    return socket;
  };
}
