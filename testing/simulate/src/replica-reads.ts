import { RING_PROTOCOL, RING_PROTOCOL_KEY } from "@concord/adapter-ring";
import type { Row } from "@concord/ports";
import { imageOfStored } from "@concord/quorum";
import { decodeImage, encodeRange, liveRow } from "@concord/rows";
import { ReplicaService, type ReadRowRangeRequest } from "@concord/protos-storage";
import { bearer, callUnary } from "@concord/rpc";
import { toHex, type Environment } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { PEER_TOKEN } from "./cluster.ts";

const ROWS_MAX = 1_000;
const TIMEOUT_MS = 5_000;

/** The live rows of some partitions as one replica has them, asked as a peer would: no quorum, no repair. */
export async function readReplica(...args: Parameters<typeof storedRows>): Promise<Row[]> {
  const images = await storedRows(...args);
  return images.map((image) => liveRow(decodeImage(imageOfStored(image)))).filter((row) => row !== undefined);
}

/** As `readReplica`: every row as it is stored, dead ones included. */
export async function storedRows(
  env: Environment,
  address: string,
  table: string,
  partitions: readonly (readonly CellValue[])[],
): Promise<Uint8Array[]> {
  const channel = env.transport.connect(address);
  const rows: Uint8Array[] = [];
  for (const partition of partitions) {
    const { from, to } = encodeRange({ table, partition, reverse: false, limit: ROWS_MAX });
    const request: ReadRowRangeRequest = { fromKey: from, toKey: to, reverse: false, limit: ROWS_MAX, after: [] };
    const options = { timeoutMs: TIMEOUT_MS, metadata: { ...bearer(PEER_TOKEN), [RING_PROTOCOL_KEY]: String(RING_PROTOCOL) } };
    const { images } = await callUnary(channel, ReplicaService.methods.ReadRowRange, request, options);
    rows.push(...images);
  }
  channel.close();
  return rows;
}

/** The stored rows of each replica, in one order. */
export function replicasAreEqual(replicas: readonly (readonly Uint8Array[])[]): boolean {
  return new Set(replicas.map((rows) => rows.map(toHex).join("\n"))).size <= 1;
}
