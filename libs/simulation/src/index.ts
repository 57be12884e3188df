export type { DatagramSocket, OpenDatagrams } from "./datagrams.ts";
export type { CrashMode } from "./files.ts";
export { drawFaultPlan, FAULT_KINDS, type Fault, type FaultKind, type FaultPlanOptions, type FaultTargets } from "./fault-plan.ts";
export { simulatedHttpClient, type SimulatedHttpClient, type SimulatedRequest, type SimulatedResponse } from "./http.ts";
export { FREE_CPU, SIMULATION_EPOCH_MS, type CpuCost } from "./incarnation.ts";
export { CALM_NETWORK, type NetworkProfile } from "./links.ts";
export { KEEPALIVE_US } from "./network.ts";
export { seededRandom, type SeededRandom } from "./seeded-random.ts";
export { World, type Boot, type Booted, type NodeContext, type Violation, type WorldOptions } from "./world.ts";
