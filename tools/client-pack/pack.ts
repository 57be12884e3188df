// The installable client: a tarball as `npm pack` makes it, with plain JavaScript for Node 20, types that stand alone and the published
// contracts. Workspace code is bundled; grpc-js stays a dependency, as it reads files of its own.
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { build } from "esbuild";

const ROOT = resolve(import.meta.dirname, "../..");
const CLIENT = join(ROOT, "libs/client");
const ENTRY = join(CLIENT, "src/package-entry.ts");
const EXTERNAL = ["@grpc/grpc-js"];
/** Types of other packages that stand alone too: the installed package has a copy of them. */
const CARRIED: Readonly<Record<string, string>> = { "@concord/values/model": "libs/values/src/model" };
const NODE_FLOOR = ">=20";

interface Manifest {
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Makes the tarball in `folder` and returns its path. */
export async function packClient(folder: string): Promise<string> {
  const stage = mkdtempSync(join(tmpdir(), "concord-client-"));
  try {
    const imported = await bundle(stage);
    emitTypes(stage);
    for (const part of ["concord", "google", "grpc"]) {
      cpSync(join(ROOT, "protos", part), join(stage, "protos", part), { recursive: true, filter: isContract });
    }
    copyFileSync(join(CLIENT, "README.md"), join(stage, "README.md"));
    const license = join(ROOT, "LICENSE");
    if (existsSync(license)) copyFileSync(license, join(stage, "LICENSE"));
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest(imported), undefined, 2)}\n`);
    return tarball(stage, folder);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

/** Folders and .proto files; a contract project has more. */
function isContract(path: string): boolean {
  return path.endsWith(".proto") || (statSync(path).isDirectory() && basename(path) !== "gen");
}

/** Writes index.js; returns the packages it imports. */
async function bundle(stage: string): Promise<ReadonlySet<string>> {
  const result = await build({
    entryPoints: [ENTRY],
    outfile: join(stage, "index.js"),
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    external: EXTERNAL,
    metafile: true,
    legalComments: "none",
    logLevel: "error",
  });
  const imports = Object.values(result.metafile.outputs).flatMap((output) => output.imports);
  const names = new Set(imports.map((one) => one.path).filter((path) => !path.startsWith("node:")));
  for (const name of names)
    if (!EXTERNAL.includes(name)) throw new Error(`the client's bundle imports ${name}, which is no dependency of it`);
  return names;
}

/** Writes the declarations reachable from index.d.ts; refuses any that names another package. */
function emitTypes(stage: string): void {
  const out = mkdtempSync(join(tmpdir(), "concord-client-types-"));
  try {
    const config = join(out, "tsconfig.json");
    const options = {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      outDir: join(out, "types"),
      rootDir: ROOT,
      noCheck: true,
    };
    const typeRoots = [join(ROOT, "node_modules/@types")];
    // Found through node_modules alone they count as another package's, for which tsc writes nothing.
    const carried = Object.values(CARRIED).map((path) => join(ROOT, `${path}.ts`));
    writeFileSync(
      config,
      JSON.stringify({ extends: join(ROOT, "tsconfig.base.json"), compilerOptions: { ...options, typeRoots }, files: [ENTRY, ...carried] }),
    );
    execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", config], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    copyDeclarations(join(out, "types"), "libs/client/src/package-entry", stage, "index");
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** `path` and what it imports, from below `types` into one folder. */
function copyDeclarations(types: string, path: string, stage: string, as: string = basename(path)): void {
  const target = join(stage, `${as}.d.ts`);
  if (existsSync(target)) return;
  let text = readFileSync(join(types, `${path}.d.ts`), "utf8");
  const imports = [...text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)/g)].map((match) => (match[1] ?? match[2])!);
  const paths = imports.map((specifier) => {
    const imported = specifier.startsWith("./") ? join(dirname(path), specifier.replace(/\.(ts|js)$/, "")) : CARRIED[specifier];
    if (imported === undefined) throw new Error(`the client's type ${path}.d.ts names ${specifier}: its public types must stand alone`);
    text = text.replaceAll(`"${specifier}"`, `"./${basename(imported)}.js"`);
    return imported;
  });
  writeFileSync(target, text);
  for (const imported of paths) copyDeclarations(types, imported, stage);
}

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

function tarball(stage: string, folder: string): string {
  mkdirSync(folder, { recursive: true });
  const output = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", resolve(folder)], {
    cwd: stage,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [packed] = JSON.parse(output) as { filename: string }[];
  return join(resolve(folder), packed!.filename.replace("@", "").replace("/", "-"));
}

// A relative folder is below the one where the user called npm, not below this repository, to which npm moves.
if (process.argv[1] === import.meta.filename) {
  const folder = process.argv[2];
  if (folder === undefined || folder.startsWith("-")) {
    console.error("usage: npm run client:pack -- FOLDER");
    process.exitCode = 2;
  } else console.log(await packClient(resolve(process.env["INIT_CWD"] ?? ".", folder)));
}
