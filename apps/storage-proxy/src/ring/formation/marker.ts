import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { KeyValue, KeyValueOperation } from "@concord/ports";
import type { Checksum } from "@concord/runtime";

/**
 * What a store says of itself (namespace 'm', never copied): how far its node came in joining the ring, with which members, and
 * which peers it knows to have been part of the ring (TXR4).
 */
export type Marker =
  | { readonly kind: "empty" }
  /** New in a ring: its peers do not all know it yet. Has never served. */
  | { readonly kind: "joining"; readonly members: readonly string[] }
  /** Part of the ring; every peer knows it. */
  | { readonly kind: "formed"; readonly members: readonly string[] }
  /** Part of the ring, and lacks what its peers have dropped or a repair gave up: it is copied from them before it serves. */
  | { readonly kind: "lagging"; readonly members: readonly string[] };

const encoder = new TextEncoder();
const FORMAT_VERSION = 1;
const MARKER_KEY = encoder.encode("m:marker");
const PEER_PREFIX = "m:peer:";
const ALL_ROWS_KEY = encoder.encode("m:all-rows");
const KINDS = ["joining", "formed", "lagging"] as const;

export async function readMarker(store: KeyValue, checksum: Checksum): Promise<Marker> {
  const stored = await store.get(MARKER_KEY);
  if (stored === undefined) return { kind: "empty" };
  const reader = new ByteReader(openRecord(stored, FORMAT_VERSION, checksum).body);
  const kind = KINDS[reader.u8()] ?? "joining";
  const members = Array.from({ length: reader.varint() }, () => reader.text());
  return { kind, members };
}

export async function writeMarker(store: KeyValue, marker: Exclude<Marker, { kind: "empty" }>, checksum: Checksum): Promise<void> {
  const writer = new ByteWriter().u8(KINDS.indexOf(marker.kind)).varint(marker.members.length);
  for (const member of marker.members) writer.text(member);
  await store.batch([{ kind: "put", key: MARKER_KEY, value: sealRecord(FORMAT_VERSION, writer, checksum) }], { sync: true });
}

/**
 * Prepares a store that lost values in a repair: in a ring of several its node copies the other two before it serves, since a replica that forgot what
 * it acknowledged must not vote. Returns the names of the ring's nodes; none: the store has not joined a ring.
 */
export async function copiesBeforeServing(store: KeyValue, checksum: Checksum): Promise<readonly string[]> {
  const marker = await readMarker(store, checksum);
  if (marker.kind === "empty") return [];
  const { members } = marker;
  if (members.length > 1 && marker.kind !== "joining") {
    await store.batch([{ kind: "delete", key: ALL_ROWS_KEY }], { sync: true });
    await writeMarker(store, { kind: "lagging", members }, checksum);
  }
  return members;
}

/**
 * Does the store lack no row of a group that a quorum has, up to what it has applied? A ring that was formed when rows already followed from
 * the log has no others, and a copy of both peers has them all; in a ring of before, a replica may have missed a row for ever.
 */
export async function hasAllRows(store: KeyValue): Promise<boolean> {
  return (await store.get(ALL_ROWS_KEY)) !== undefined;
}

export function allRowsPresent(): KeyValueOperation {
  return { kind: "put", key: ALL_ROWS_KEY, value: Uint8Array.of(1) };
}

/** Has this peer's store been part of the ring? */
export async function knowsPeer(store: KeyValue, peer: string): Promise<boolean> {
  return (await store.get(encoder.encode(PEER_PREFIX + peer))) !== undefined;
}

export function peerKnown(peer: string): KeyValueOperation {
  return { kind: "put", key: encoder.encode(PEER_PREFIX + peer), value: Uint8Array.of(1) };
}
