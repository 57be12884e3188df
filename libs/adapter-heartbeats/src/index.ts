export { HEARTBEAT_METRICS } from "./metrics.ts";
export { UdpMembership, type UdpMembershipOptions } from "./udp-membership.ts";
