export { HEARTBEAT_METRICS, UdpMembership, type UdpMembershipOptions } from "./udp-membership.ts";
