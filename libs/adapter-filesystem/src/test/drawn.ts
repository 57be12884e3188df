import { dice } from "@concord/port-contracts";
import type { Random } from "@concord/runtime";

const draw = dice(1);

/** One stream for all processes of a test, as the operating system's is: no two draw the same name. */
export const random: Random = {
  bytes: (length) => Uint8Array.from({ length }, () => draw(256)),
  below: draw,
  float: () => draw(2 ** 32) / 2 ** 32,
};
