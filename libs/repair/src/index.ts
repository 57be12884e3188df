export { HintDelivery, type HintDeliveryOptions, type HintedPeer } from "./hint-delivery.ts";
export { HintStore, type HintBacklog, type HintDrop, type HintStoreOptions, type StoredHint } from "./hint-store.ts";
export { REPAIR_METRICS } from "./metrics.ts";
