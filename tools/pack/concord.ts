// All of Concord as a package to install: `startConcord` for integration tests and the program `concord`, as JavaScript for Node 24.
import { emitDeclarations } from "./declarations.ts";
import { bundlePrograms, commit, readManifest } from "@concord/nx-targets/bundle";
import { packCommand, packStage } from "./tarball.ts";

const APP = "apps/concord";
const ENTRY = `${APP}/src/package-entry`;
const NODE_FLOOR = ">=24";

/** Makes the tarball in `folder` and returns its path. */
export function packConcord(folder: string): Promise<string> {
  return packStage(folder, `${APP}/README.md`, async (stage) => {
    const dependencies = await bundlePrograms({ index: `${ENTRY}.ts`, main: `${APP}/src/main.ts` }, stage);
    emitDeclarations(stage, ENTRY);
    const { name, version, license } = readManifest(APP);
    return {
      name,
      version,
      commit: commit(),
      description: "Concord in one process: transactions, quorum rows, S3 objects and messages that come out once.",
      license,
      type: "module",
      exports: { ".": { types: "./index.d.ts", default: "./index.js" } },
      types: "./index.d.ts",
      bin: { concord: "main.js" },
      engines: { node: NODE_FLOOR },
      dependencies,
    };
  });
}

if (process.argv[1] === import.meta.filename) await packCommand("concord:pack", packConcord);
