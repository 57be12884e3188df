import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import { DescriptorReserve } from "@concord/runtime";
import { nodeClock } from "./clock.ts";

let reserve: DescriptorReserve | undefined;

/** The one reserve of the process, because the limit is the process's. Filled by the first call. */
export function nodeDescriptors(): DescriptorReserve {
  if (reserve === undefined) {
    reserve = new DescriptorReserve({ clock: nodeClock, open: () => openSync(devNull, "r"), close: closeSync });
    reserve.fill();
  }
  return reserve;
}
