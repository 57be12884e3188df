import type { ObjectAdminService } from "@concord/protos-object";
import type { Handler } from "@concord/rpc";
import type { GatewayStatus, ObjectAdmin } from "./object-admin.ts";

const MODES = {
  reservation: "JOURNAL_MODE_RESERVATION",
  "per-transaction": "JOURNAL_MODE_PER_TRANSACTION",
  "per-transaction-basic": "JOURNAL_MODE_PER_TRANSACTION_BASIC",
  off: "JOURNAL_MODE_OFF",
} as const satisfies Record<GatewayStatus["journal"], string>;

/** Epoch, recovery, what is unresolved. */
export function getStatusHandler(admin: () => ObjectAdmin): Handler<ObjectAdminService, "GetStatus"> {
  return async () => {
    const { instance, epoch, journal, recovered, recovery, inDoubt, uploadsInFlight, httpAddress } = admin().status();
    return {
      instance,
      epoch,
      journalMode: MODES[journal],
      recovered,
      recovery: {
        epochs: recovery.epochs,
        referenced: BigInt(recovery.referenced),
        collected: BigInt(recovery.collected),
        absent: BigInt(recovery.absent),
      },
      inDoubt,
      uploadsInFlight,
      httpAddress,
    };
  };
}
