import type { LeftOutRow } from "@concord/protos-storage";
import { ConcordError, type Clock } from "@concord/runtime";
import { LARGE_VALUE_TRIES_MAX } from "./limits.ts";
import type { PeerSession } from "./peer-session.ts";

/** Reads a stored value that does not fit into a message, part by part; undefined: it is gone. REPLICAS_UNAVAILABLE: it changes faster than it is read. */
export async function readLarge(
  peer: Pick<PeerSession, "name" | "readPart" | "clock">,
  key: Uint8Array,
  timeoutMs: number,
): Promise<Uint8Array | undefined> {
  const untilMs = peer.clock.monotonicMs() + timeoutMs;
  for (let tries = 0; tries < LARGE_VALUE_TRIES_MAX; tries += 1) {
    const read = await readOnce(peer, key, untilMs);
    if (read !== "changed") return read;
  }
  throw new ConcordError("REPLICAS_UNAVAILABLE", `a large row of ${peer.name} changes faster than it is read; read it again`);
}

/** Puts rows that an answer left out where empty bytes stand for them; those that are gone stay empty. */
export async function withLeftOut(
  peer: PeerSession,
  rows: readonly Uint8Array[],
  leftOut: readonly LeftOutRow[],
  timeoutMs: number,
): Promise<readonly Uint8Array[]> {
  if (leftOut.length === 0) return rows;
  const whole = [...rows];
  for (const { index, key } of leftOut) {
    if (whole[index]?.length !== 0) throw new ConcordError("INTERNAL", `${peer.name} left out a row that it did not name`);
    whole[index] = (await readLarge(peer, key, timeoutMs)) ?? whole[index];
  }
  return whole;
}

async function readOnce(
  peer: { readonly clock: Clock } & Pick<PeerSession, "readPart">,
  key: Uint8Array,
  untilMs: number,
): Promise<Uint8Array | undefined | "changed"> {
  const remainingMs = (): number => Math.max(1, untilMs - peer.clock.monotonicMs());
  const first = await peer.readPart(key, 0, remainingMs());
  const totalBytes = Number(first.totalBytes);
  if (totalBytes === 0) return undefined;
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
