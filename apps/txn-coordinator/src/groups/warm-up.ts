import { ConcordError, newTimeId, toConcordError } from "@concord/runtime";
import { TransactionGroup, type GroupContext, type GroupSettings, type OperationCall, type ServingMaster } from "@concord/transactions";
import { WARM_UP_COMMITS } from "../limits.ts";
import { warmUpRange, warmUpRow } from "../schema/system-tables.ts";

export interface WarmUpOptions extends Omit<GroupContext, "settings"> {
  readonly settings: Omit<GroupSettings, "group" | "owns" | "followsLog">;
}

/** Group of the one coordinator: no other takes it over, and only its warm-up reads its rows. */
export function warmUpGroup(nodeName: string): string {
  return `warm-up/${nodeName}`;
}

/**
 * Takes a group of this coordinator's own over, commits to it, and takes it over from itself with its last entry pending: what a standby would do for the
 * first time only when its master dies, and each function that runs for the first time is compiled first. Never rejects: a standby works without it.
 */
export async function warmUp(options: WarmUpOptions, signal: AbortSignal): Promise<void> {
  const { clock, log } = options;
  const beganMs = clock.monotonicMs();
  try {
    await warmUpOnce(options, signal);
    await warmUpOnce(options, signal);
    log.info("warmed up", { afterMs: Math.round(clock.monotonicMs() - beganMs) });
  } catch (thrown) {
    log.debug("the warm-up ended early", { reason: toConcordError(thrown).message });
  }
}

/** One master's life. It ends at once, like a crash: the next one finds an entry that is not known to be decided. */
async function warmUpOnce(options: WarmUpOptions, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw new ConcordError("DRAINING", "stopped while it warmed up");
  const { settings } = options;
  const groupSettings = { ...settings, group: warmUpGroup(settings.nodeName), owns: () => true, followsLog: () => true };
  const group = new TransactionGroup({ ...options, settings: groupSettings });
  const stop = (): void => group.stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    await group.start();
    await group.serving().resolveOutcome(newTimeId(options.clock, options.random), options.clock.monotonicMs() + settings.storageTimeoutMs);
    for (let count = 0; count < WARM_UP_COMMITS; count += 1) await transact(options, group.serving(), BigInt(count));
  } finally {
    signal.removeEventListener("abort", stop);
    group.stop();
  }
}

/** Two as a client's, one that only reads and one that writes. */
async function transact({ clock, random, settings }: WarmUpOptions, master: ServingMaster, count: bigint): Promise<void> {
  const row = warmUpRow(settings.nodeName, count);
  const start = { key: row.write.key, mode: "exclusive", read: "read", firstStartMs: undefined, lifetimeMs: undefined } as const;
  // The commit that writes comes last: its entry is still pending when the next life takes over.
  for (const writes of [[], [row]]) {
    const deadlineAtMs = clock.monotonicMs() + settings.storageTimeoutMs;
    const call = (number: number): OperationCall => ({ id, number, sessionId: undefined, deadlineAtMs });
    const id = newTimeId(clock, random);
    await master.start(call(1), start);
    await master.operate(call(2), (operations) => operations.readRange(warmUpRange(settings.nodeName)));
    await master.commit(call(3), () => writes, { maxDelayMs: 0 });
  }
}
