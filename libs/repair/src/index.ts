export { AntiEntropy, type AntiEntropyOptions, type ComparedPeer, type RepairProgress } from "./anti-entropy.ts";
export { HintDelivery, type HintDeliveryOptions, type HintedPeer } from "./hint-delivery.ts";
export { HintStore, type HintBacklog, type HintDrop, type HintStoreOptions, type StoredHint } from "./hint-store.ts";
export { LocalTombstones, type LocalTombstonesOptions, type PlainTombstone } from "./local-tombstones.ts";
export { SEGMENT_LEAVES, SEGMENT_SLACK } from "./limits.ts";
export { REPAIR_METRICS } from "./metrics.ts";
export { PlainTombstoneCollector, type PlainTombstoneCollectorOptions, type TombstonePeer } from "./plain-tombstones.ts";
export { RowHealer, type RowHealerOptions } from "./row-healer.ts";
export { ComparedRows, type Segment, type SegmentRow, type SegmentRows, type SegmentSums } from "./row-sums.ts";
