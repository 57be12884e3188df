import type { TxnCoordinatorConfig } from "../config.ts";

export type Coordinator = TxnCoordinatorConfig["coordinators"][number];

/** All coordinators; one alone is reached where it listens. */
export function coordinatorsOf(config: TxnCoordinatorConfig): readonly Coordinator[] {
  const { coordinators, nodeName, listenAddress, datacenter } = config;
  return coordinators.length > 0 ? coordinators : [{ name: nodeName, address: listenAddress, datacenter }];
}
