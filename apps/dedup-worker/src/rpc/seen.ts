import type { WindowService } from "@concord/protos-dedup";
import { remainingMs, type Handler } from "@concord/rpc";
import { checkedId } from "../ingest/check-message.ts";
import { SEEN_IDS_MAX } from "../limits.ts";
import type { Worker } from "../partitions/partitions.ts";
import type { Context } from "../context.ts";
import { checkLimit, malformed } from "./wire.ts";

/** Were these ids seen within the window (DDD12)? PARTITION_STOPPED when one of them belongs to a partition that does not run. */
export function seenHandler({ partitions, peers, environment, sources }: Context): Handler<WindowService, "Seen"> {
  return async ({ ids, forwarded, source: requested }, context) => {
    const source = sources.sourceFor(context.caller, requested, forwarded);
    if (ids.length === 0) throw malformed("there are no ids");
    checkLimit(ids.length, SEEN_IDS_MAX, "SEEN_IDS_MAX", "ids");
    const checked = ids.map((id) => {
      if (id === "") throw malformed("an id is empty");
      return checkedId(id);
    });
    const budget = { signal: context.signal, timeoutMs: remainingMs(context, environment.clock) };
    const ask = ({ address }: Worker, some: readonly Uint8Array[]): Promise<readonly boolean[]> =>
      peers.seen(
        address,
        some.map((id) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(id)),
        source,
        budget,
      );
    return { seen: await partitions().seen(checked, source, forwarded ? undefined : ask) };
  };
}
