import type { Connection } from "./connection.ts";
import type { Incarnation } from "./incarnation.ts";
import type { PipeNetwork } from "./pipe.ts";

/** The network as calls and streams use it. */
export interface CallNetwork extends PipeNetwork {
  nextCallId(): number;
  monotonicMs(incarnation: Incarnation): number;
  deliver(connection: Connection, direction: "to-server" | "to-client", label: string, bytes: Uint8Array, arrive: () => void): void;
  inspectError(server: Incarnation, path: string, thrown: unknown): void;
  undecodable(path: string, thrown: unknown): void;
}
