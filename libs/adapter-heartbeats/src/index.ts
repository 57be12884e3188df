export { HEARTBEAT_METRICS } from "./metrics.ts";
export type { Address, ReadList } from "./messages.ts";
export { UdpMembership, type UdpMembershipOptions } from "./udp-membership.ts";
