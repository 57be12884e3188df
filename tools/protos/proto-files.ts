import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The folder of the contracts, relative to the workspace root, from which every tool runs. */
export const PROTOS_FOLDER = "protos";

/** The contracts as last released, inside PROTOS_FOLDER. */
export const RELEASED_IMAGE = "released.binpb";

/** Where a contract project's generated modules go, relative to its folder. */
export const GENERATED_FOLDER = "gen";

/** A project with .proto files. */
export interface ContractProject {
  /** Relative to the workspace root: "protos/concord/dedup/v1", or "protos" for the standard contracts. */
  readonly root: string;
  /** "@concord/protos-dedup" */
  readonly name: string;
}

/** Every project below protos/; the standard contracts (google/, grpc/) belong to protos itself. */
export function contractProjects(workspaceRoot = "."): ContractProject[] {
  const folders = ["", "concord/*/v*", "testing/concord/*/v*"].flatMap((pattern) =>
    globSync(`${PROTOS_FOLDER}/${pattern}`, { cwd: workspaceRoot }),
  );
  return folders
    .map((folder) => folder.replace(/\/$/, ""))
    .filter((root) => existsSync(join(workspaceRoot, root, "package.json")))
    .sort()
    .map((root) => ({
      root,
      name: (JSON.parse(readFileSync(join(workspaceRoot, root, "package.json"), "utf8")) as { name: string }).name,
    }));
}
