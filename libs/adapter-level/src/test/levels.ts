// Stores of tests that have descriptors to spare.
import { closeSync, openSync } from "node:fs";
import { devNull } from "node:os";
import type { BackingStore } from "@concord/ports";
import { DescriptorReserve, type Clock } from "@concord/runtime";
import { openLevel as open, openLevelCopy as openCopy, type LevelOptions } from "../index.ts";

const clock = { monotonicMs: () => 0 } as unknown as Clock;
const descriptors = new DescriptorReserve({ clock, open: () => openSync(devNull, "r"), close: closeSync });

export const openLevel = (folder: string, options?: LevelOptions): Promise<BackingStore> => open(folder, descriptors, options);
export const openLevelCopy = (folder: string, options?: LevelOptions): Promise<BackingStore> => openCopy(folder, descriptors, options);
