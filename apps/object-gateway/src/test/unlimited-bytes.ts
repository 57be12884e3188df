import { nodeClock } from "@concord/adapter-node-runtime";
import { silentMetrics } from "@concord/runtime";
import { ByteRates } from "../http/byte-rates.ts";

/** For operations that are called without a gateway: no rate for any tenant or address. */
export const UNLIMITED_BYTES = new ByteRates({
  direction: "down",
  tenants: () => undefined,
  addressRate: undefined,
  networkOf: (address) => address,
  clock: nodeClock,
  metrics: silentMetrics,
});
