import type { LeftOutRow } from "@concord/protos-storage";
import { ROW_BYTES_MAX, type ExchangeTime } from "@concord/quorum";
import { ConcordError, type Clock } from "@concord/runtime";
import { LARGE_VALUE_TRIES_MAX } from "./limits.ts";
import type { PeerSession } from "./peer-session.ts";

/** Reads a stored value that does not fit into a message, part by part; undefined: it is gone. REPLICAS_UNAVAILABLE: it changes faster than it is read. */
export async function readLarge(
  peer: Pick<PeerSession, "name" | "readPart" | "clock">,
  key: Uint8Array,
  timeoutMs: number,
  onSize?: (bytes: number) => void,
): Promise<Uint8Array | undefined> {
  const untilMs = peer.clock.monotonicMs() + timeoutMs;
  for (let tries = 0; tries < LARGE_VALUE_TRIES_MAX; tries += 1) {
    const read = await readOnce(peer, key, untilMs, onSize);
    if (read !== "changed") return read;
  }
  throw new ConcordError("REPLICAS_UNAVAILABLE", `a large row of ${peer.name} changes faster than it is read; read it again`);
}

/**
 * Puts rows that an answer left out where empty bytes stand for them; those that are gone stay empty. Announces their bytes to `time`: ROW_BYTES_MAX of each
 * before its first part, as less is not left out.
 */
export async function withLeftOut(
  peer: PeerSession,
  rows: readonly Uint8Array[],
  leftOut: readonly LeftOutRow[],
  timeoutMs: number,
  time?: ExchangeTime,
): Promise<readonly Uint8Array[]> {
  if (leftOut.length === 0) return rows;
  const whole = [...rows];
  let bytes = leftOut.length * ROW_BYTES_MAX;
  for (const row of rows) bytes += row.length;
  time?.announce(bytes);
  for (const { index, key } of leftOut) {
    if (whole[index]?.length !== 0) throw new ConcordError("INTERNAL", `${peer.name} left out a row that it did not name`);
    const onSize = (size: number): void => time?.announce((bytes += Math.max(0, size - ROW_BYTES_MAX)));
    whole[index] = (await readLarge(peer, key, time?.longestMs ?? timeoutMs, onSize)) ?? whole[index];
  }
  return whole;
}

async function readOnce(
  peer: { readonly clock: Clock } & Pick<PeerSession, "readPart">,
  key: Uint8Array,
  untilMs: number,
  onSize?: (bytes: number) => void,
): Promise<Uint8Array | undefined | "changed"> {
  const remainingMs = (): number => Math.max(1, untilMs - peer.clock.monotonicMs());
  const first = await peer.readPart(key, 0, remainingMs());
  const totalBytes = Number(first.totalBytes);
  if (totalBytes === 0) return undefined;
  onSize?.(totalBytes);
  const value = new Uint8Array(totalBytes);
  let { part } = first;
  for (let at = 0; ;) {
    if (part.length === 0 || at + part.length > totalBytes) return "changed";
    value.set(part, at);
    at += part.length;
    if (at === totalBytes) return value;
    const next = await peer.readPart(key, at, remainingMs());
    if (Number(next.totalBytes) !== totalBytes || next.checksum !== first.checksum) return "changed";
    ({ part } = next);
  }
}
