import { ObjectAdminService } from "@concord/protos-object";
import { defineService, type Authenticator, type Role, type Service } from "@concord/rpc";
import type { Environment } from "@concord/runtime";
import { checkConsistencyHandler } from "./check-consistency.ts";
import { collectGarbageHandler } from "./collect-garbage.ts";
import { getStatusHandler } from "./get-status.ts";
import { getUsageHandler } from "./get-usage.ts";
import { listReservationsHandler } from "./list-reservations.ts";
import type { ObjectAdmin } from "./object-admin.ts";

/** Contracts that `defineServices` implements. */
export const CONTRACTS = [ObjectAdminService] as const;

const OPERATOR: readonly Role[] = ["operator"];

/** The gRPC side of a gateway: operators only. */
export function defineServices(environment: Environment, authenticator: Authenticator, admin: () => ObjectAdmin): readonly Service[] {
  const { clock, log, metrics, tracer } = environment;
  const unary = {
    GetStatus: getStatusHandler(admin),
    CollectGarbage: collectGarbageHandler(admin),
    ListReservations: listReservationsHandler(admin),
    GetUsage: getUsageHandler(admin),
    CheckConsistency: checkConsistencyHandler(admin),
  };
  return [defineService({ contract: ObjectAdminService, unary, roles: OPERATOR }, { clock, log, metrics, authenticator, tracer })];
}
