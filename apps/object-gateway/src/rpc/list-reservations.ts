import type { ObjectAdminService, ReservationInit } from "@concord/protos-object";
import type { Handler } from "@concord/rpc";
import type { ObjectAdmin } from "./object-admin.ts";

/** Epochs with their reserved blob names, newest first (OGD6). */
export function listReservationsHandler(admin: () => ObjectAdmin): Handler<ObjectAdminService, "ListReservations"> {
  return async () => {
    const reservations = await admin().reservations();
    return {
      reservations: reservations
        .toSorted((left, right) => right.epoch - left.epoch)
        .map(({ epoch, instance, reservedTo, lowWater, closed }): ReservationInit => {
          return { epoch, instance, reservedTo: BigInt(reservedTo), lowWater: BigInt(lowWater), closed };
        }),
    };
  };
}
