// The installable client: a tarball as `npm pack` makes it, with plain JavaScript for Node 20, types that stand alone and the published
// contracts. Workspace code is bundled; grpc-js stays a dependency, as it reads files of its own.
import { cpSync, readFileSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { esbuild } from "@concord/nx-targets/build-modules";
import { emitDeclarations } from "./declarations.ts";
import { nameSourcesFromRoot } from "./source-maps.ts";
import { packCommand, packStage } from "./tarball.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const CLIENT = join(ROOT, "libs/client");
const ENTRY = "libs/client/src/package-entry";
const EXTERNAL = ["@grpc/grpc-js"];
const CARRIED = { "@concord/values/model": "libs/values/src/model" };
const NODE_FLOOR = ">=20";

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Makes the tarball in `folder` and returns its path. */
export function packClient(folder: string): Promise<string> {
  return packStage(folder, join(CLIENT, "README.md"), async (stage) => {
    const imported = await bundle(stage);
    nameSourcesFromRoot(stage);
    emitDeclarations(stage, ENTRY, CARRIED);
    for (const part of ["concord", "google", "grpc"]) {
      cpSync(join(ROOT, "protos", part), join(stage, "protos", part), { recursive: true, filter: isContract });
    }
    return manifest(imported);
  });
}

/** Folders and .proto files; a contract project has more. */
function isContract(path: string): boolean {
  return path.endsWith(".proto") || (statSync(path).isDirectory() && basename(path) !== "gen");
}

/** Writes index.js; returns the packages it imports. */
async function bundle(stage: string): Promise<ReadonlySet<string>> {
  const result = await esbuild.build({
    entryPoints: [join(ROOT, `${ENTRY}.ts`)],
    outfile: join(stage, "index.js"),
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    external: EXTERNAL,
    sourcemap: true,
    metafile: true,
    legalComments: "none",
    logLevel: "error",
  });
  const imports = Object.values(result.metafile.outputs).flatMap((output) => output.imports);
  const names = new Set(imports.map((one) => packageOf(one.path)).filter((path) => !path.startsWith("node:")));
  for (const name of names)
    if (!EXTERNAL.includes(name)) throw new Error(`the client's bundle imports ${name}, which is no dependency of it`);
  return names;
}

/** A file of a package counts as the package. */
const packageOf = (path: string): string => EXTERNAL.find((name) => path.startsWith(`${name}/`)) ?? path;

function manifest(imported: ReadonlySet<string>): object {
  const client = readManifest(join(CLIENT, "package.json"));
  const versions = readManifest(join(ROOT, "libs/rpc/package.json")).dependencies;
  const dependencies = Object.fromEntries([...imported].sort().map((name) => [name, versions[name]!]));
  return {
    name: "@concord/client",
    version: client.version,
    description: "Client of Concord: transactions, quorum reads and logged batches.",
    license: client.license,
    type: "module",
    exports: { ".": { types: "./index.d.ts", default: "./index.js" }, "./protos/*": "./protos/*" },
    types: "./index.d.ts",
    engines: { node: NODE_FLOOR },
    dependencies,
  };
}

function readManifest(path: string): Manifest {
  return JSON.parse(readFileSync(path, "utf8")) as Manifest;
}

if (process.argv[1] === import.meta.filename) await packCommand("client:pack", packClient);
