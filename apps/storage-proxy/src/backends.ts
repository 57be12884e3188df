import type { BackendDefinition } from "./backend-definition.ts";
import { RING_SHAPE, ringProblems, type RingConfig } from "./ring/config.ts";
import { RING_METRICS } from "./ring/metrics.ts";
import { openRing } from "./ring/open-ring.ts";

const ring: BackendDefinition<RingConfig> = { open: openRing, problems: ringProblems, metrics: RING_METRICS };

/** The engines a storage-proxy can keep its data in, by the value of the key `backend`. */
export const BACKENDS = { ring } as const;
export const DEFAULT_BACKEND = "ring" satisfies keyof typeof BACKENDS;

/** The configuration keys of all engines. */
export const BACKEND_SHAPES = { ...RING_SHAPE };
