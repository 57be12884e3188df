import type { LevelOptions } from "@concord/adapter-level";
import { overlayDisk } from "@concord/adapter-node-runtime";
import { ROWS_NAMESPACE } from "@concord/quorum";
import { admitSuspects, type StoreOptions } from "@concord/store";

/** Option of an opening that serves a store whose tables have damaged blocks of rows: their keys are refused, and everything else proven. */
export function admittingRows(options: Omit<StoreOptions, "backing">): Pick<LevelOptions, "admitSuspects"> {
  return {
    admitSuspects: async (backing, found) => {
      const reading = overlayDisk(options.disk);
      try {
        await admitSuspects({ ...options, disk: reading, backing }, options.disk, found, Uint8Array.of(ROWS_NAMESPACE));
      } finally {
        await reading.close();
      }
    },
  };
}
