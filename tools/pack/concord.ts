// All of Concord as a package to install: `startConcord` for integration tests and the program `concord`, as JavaScript for Node 24.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { emitDeclarations } from "./declarations.ts";
import { bundlePrograms, commit, readManifest } from "@concord/nx-targets/bundle";
import { nameSourcesFromRoot } from "./source-maps.ts";
import { packCommand, packStage } from "./tarball.ts";

const APP = "apps/concord";
const ENTRY = `${APP}/src/package-entry`;
const NODE_MAJOR_MIN = 24;
/** An older Node would end with a syntax error of a file that its user never saw. */
const PROGRAM = `#!/usr/bin/env node
if (Number(process.versions.node.split(".")[0]) >= ${NODE_MAJOR_MIN}) await import("./main.js");
else {
  console.error(\`concord needs Node ${NODE_MAJOR_MIN} or newer, this is \${process.version}: install one from https://nodejs.org\`);
  process.exitCode = 2;
}
`;

/** Makes the tarball in `folder` and returns its path. */
export function packConcord(folder: string): Promise<string> {
  return packStage(folder, `${APP}/README.md`, async (stage) => {
    const dependencies = await bundlePrograms({ index: `${ENTRY}.ts`, main: `${APP}/src/main.ts` }, stage);
    nameSourcesFromRoot(stage);
    emitDeclarations(stage, ENTRY);
    writeFileSync(join(stage, "concord.js"), PROGRAM);
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
      bin: { concord: "concord.js" },
      engines: { node: `>=${NODE_MAJOR_MIN}` },
      dependencies,
    };
  });
}

if (process.argv[1] === import.meta.filename) await packCommand("concord:pack", packConcord);
