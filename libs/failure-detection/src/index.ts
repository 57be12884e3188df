export { NOTHING_SEEN, type Beat, type Incarnation, type Opinion, type Report } from "./beat.ts";
export {
  BEAT_BYTES,
  decodeMessage,
  encodeBeat,
  encodeStatement,
  GROUNDED_STATEMENT_BYTES,
  RING_BEAT_BYTES,
  STATEMENT_BYTES,
  type Message,
} from "./beat-format.ts";
export { leaseEndMs } from "./lease.ts";
export type { MemberList } from "./list.ts";
export { DETECTION_LIMITS, MEMBERS_MAX, MESH_MEMBERS_MAX, RING_OBSERVERS, type DetectionLimits } from "./limits.ts";
export { majorityOf, newDetector, type DetectorOptions, type DetectorState } from "./state.ts";
export type { SelfVerdict, Verdict } from "./verdict.ts";
export { GROUNDS_MS_MAX, type Grounds, type Statement } from "./statement.ts";
export { step, type DetectorEffect, type DetectorEvent } from "./step.ts";
export { DetectorLoop, type DetectorLoopOptions } from "./detector-loop.ts";
export { observerOf, VerdictRelay, type FailureObserver } from "./failure-observer.ts";
export { ALONE, type ListedMembership, type MemberAddress, type Membership, type MembershipChange, type ReadList } from "./membership.ts";
export { SharedMembership } from "./shared-membership.ts";
export { linksOf, observedBy, observersOf, observes, slotsOf, topologyOf, type Topology } from "./topology.ts";
