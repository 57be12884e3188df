import { test } from "node:test";
import { MemoryDisk, messageLogContract } from "@concord/port-contracts";
import { openOn } from "./test/memory-log.ts";

messageLogContract(test, async () => {
  const disk = new MemoryDisk();
  return {
    log: await openOn(disk),
    restart: () => {
      disk.crash();
      return openOn(disk);
    },
  };
});
