import { globSync } from "node:fs";

/** The folder of the contracts, relative to the workspace root, from which every tool runs. */
export const PROTOS_FOLDER = "protos";

/** The contracts as last released, inside PROTOS_FOLDER. */
export const RELEASED_IMAGE = "released.binpb";

/** Our own contracts (not the vendored google/ and grpc/), relative to PROTOS_FOLDER. */
export function concordProtoFiles(): string[] {
  return globSync("concord/**/*.proto", { cwd: PROTOS_FOLDER }).sort();
}
