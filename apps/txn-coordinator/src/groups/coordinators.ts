import type { TxnCoordinatorConfig } from "../config.ts";

export type Coordinator = TxnCoordinatorConfig["coordinators"][number];
/** Over the coordinators in turn, or all at the first of them. */
export type Masters = TxnCoordinatorConfig["masters"];

/** All coordinators; one alone is reached where it listens. */
export function coordinatorsOf(config: TxnCoordinatorConfig): readonly Coordinator[] {
  const { coordinators, nodeName, listenAddress, datacenter } = config;
  return coordinators.length > 0 ? coordinators : [{ name: nodeName, address: listenAddress, datacenter }];
}
