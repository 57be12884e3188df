export { NOTHING_SEEN, type Beat, type Incarnation, type Opinion, type Report } from "./beat.ts";
export { BEAT_BYTES, decodeBeat, encodeBeat } from "./beat-format.ts";
export { leaseEndMs } from "./lease.ts";
export { DETECTION_LIMITS, MESH_MEMBERS_MAX, type DetectionLimits } from "./limits.ts";
export { majorityOf, newDetector, type DetectorOptions, type DetectorState, type SelfVerdict, type Verdict } from "./state.ts";
export { step, type DetectorEffect, type DetectorEvent } from "./step.ts";
export { DetectorLoop, type DetectorLoopOptions } from "./detector-loop.ts";
export { observerOf, VerdictRelay, type FailureObserver } from "./failure-observer.ts";
export { ALONE, type Membership, type MembershipChange } from "./membership.ts";
