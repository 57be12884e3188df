// Calls of operators to one gateway of a constellation: the last node's ObjectAdminService.
import { nodeClock } from "@concord/adapter-node-runtime";
import type { UnaryMethod } from "@concord/protos";
import { ObjectAdminService } from "@concord/protos-object";
import { bearer, callUnary, grpcTransport } from "@concord/rpc";
import { silentLog, silentMetrics } from "@concord/runtime";
import type { Constellation } from "./constellation.ts";

const TIMEOUT_MS = 60_000;

export interface ObjectAdminChannel {
  call<M extends UnaryMethod>(method: M, request: Parameters<M["encodeRequest"]>[0]): Promise<ReturnType<M["decodeResponse"]>>;
  close(): void;
}

/** A connection to the last node; the caller closes it. */
export function objectAdmin({ nodes, tokens }: Constellation): ObjectAdminChannel {
  const channel = grpcTransport({ clock: nodeClock, log: silentLog, metrics: silentMetrics }).connect(nodes.at(-1)!.address);
  const options = { timeoutMs: TIMEOUT_MS, metadata: bearer(tokens.operator) };
  return { call: (method, request) => callUnary(channel, method, request, options), close: () => channel.close() };
}

/** True once no epoch of the gateway is left to recover: others have taken over all that it had under way. */
export async function isRecovered({ call }: ObjectAdminChannel, instance: string): Promise<boolean> {
  const { reservations } = await call(ObjectAdminService.methods.ListReservations, {});
  return reservations.every((epoch) => epoch.instance !== instance || (epoch.closed && epoch.lowWater >= epoch.reservedTo));
}
