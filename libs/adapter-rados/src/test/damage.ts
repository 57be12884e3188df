import type { Oid } from "@concord/ports";
import { STRIPE_BYTES } from "../limits.ts";
import { stripeObject } from "../names.ts";
import type { RadosPool } from "../pool.ts";

/** Flips a bit of a stored byte, behind the store's back. */
export async function damageStripe(pool: RadosPool, oid: Oid, at: number): Promise<void> {
  const object = stripeObject(oid, Math.floor(at / STRIPE_BYTES));
  const found = await pool.read(object, at % STRIPE_BYTES, 1);
  await pool.write(object, [{ kind: "write", at: at % STRIPE_BYTES, bytes: Uint8Array.of(found!.bytes[0]! ^ 1) }]);
}
