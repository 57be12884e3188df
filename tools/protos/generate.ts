// Writes what TypeScript needs of the contracts into the git-ignored gen folder of each contract project: the types, the services, the
// codecs and the files for reflection. `node tools/protos/generate.ts` does all of them, with a project's folder only that one.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { codecsModule, messagesToCheck } from "./codecs.ts";
import { buildImage, type ImageFile } from "./image.ts";
import { contractProjects, GENERATED_FOLDER, PROTOS_FOLDER, type ContractProject } from "./proto-files.ts";
import { packageModule, type PackageImport } from "./typescript.ts";

const STANDARD = "@concord/protos";
/** Packages whose messages pass when a person or tool explores a server, at no other time. */
export const LOADED_PACKAGES: ReadonlySet<string> = new Set(["grpc.reflection.v1", "grpc.reflection.v1alpha"]);

/** "concord.dedup.v1" -> "@concord/protos-dedup", "google.rpc" -> "@concord/protos". */
function projectName(packageName: string): string {
  const [first, second] = packageName.split(".");
  return first === "concord" ? `${STANDARD}-${second}` : STANDARD;
}

/** The module of a package: one per project of ours, several in the project of the standard contracts. */
function modulePath({ root, name }: ContractProject, packageName: string): string {
  return name === STANDARD ? join(root, "src", GENERATED_FOLDER, `${packageName}.ts`) : join(root, GENERATED_FOLDER, "index.ts");
}

/** The types and services of a package, or with the suffix its codecs. */
function packageImport(from: string, packageName: string, suffix: "" | "codecs" = ""): PackageImport {
  const project = projectName(packageName);
  const words = packageName.split(".").filter((word) => word !== "concord" && !/^v\d/.test(word));
  const alias = words.map((word, at) => (at === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join("");
  const inside = projectName(from) === STANDARD ? `./${packageName}${dotted(suffix)}.ts` : `${STANDARD}/${packageName}${dotted(suffix)}`;
  return { packageName, alias, specifier: project === STANDARD ? inside : `${project}${suffix === "" ? "" : `/${suffix}`}` };
}

const dotted = (suffix: string): string => (suffix === "" ? "" : `.${suffix}`);

/** Every generated file by its path. */
export function generatedFiles(image: readonly ImageFile[], projects: readonly ContractProject[]): Map<string, string> {
  const checked = messagesToCheck(image.map(({ json }) => json));
  const packageOf = new Map(image.map(({ json }) => [json.name, json.package]));
  const texts = new Map<string, string>();
  for (const [packageName, members] of Map.groupBy(image, ({ json }) => json.package)) {
    const project = projects.find((one) => one.name === projectName(packageName));
    if (project === undefined) throw new Error(`package ${packageName} has no project ${projectName(packageName)} below ${PROTOS_FOLDER}`);
    const used = new Set(members.flatMap(({ json }) => (json.dependency ?? []).map((name) => packageOf.get(name)!)));
    used.delete(packageName);
    const path = modulePath(project, packageName);
    const beside = (name: string): string => path.replace(/\.ts$/, `.${name}.ts`);
    const files = members.map(({ json }) => json);
    const packages = [...used].sort();
    const isStandard = project.name === STANDARD;
    const runtime = isStandard ? "../index.ts" : STANDARD;
    const module = (from: string): string => `./${basename(from)}`;
    const imports = packages.map((one) => packageImport(packageName, one));
    const codecs = { codecsModule: module(beside("codecs")), filesModule: module(beside("files")) };
    texts.set(path, packageModule({ packageName, files, imports, runtime, ...codecs }));
    const codecImports = packages.map((one) => packageImport(packageName, one, "codecs"));
    const types = { typesModule: module(path), checked, isLoaded: LOADED_PACKAGES.has(packageName) };
    texts.set(beside("codecs"), codecsModule({ packageName, files, imports: codecImports, runtime, ...types }));
    texts.set(beside("files"), contractFilesModule(members, runtime));
  }
  return texts;
}

function contractFilesModule(members: readonly ImageFile[], runtime: string): string {
  const files = members.map(({ json, encoded }) => ({
    name: json.name,
    dependencies: json.dependency ?? [],
    package: json.package,
    symbols: [...(json.messageType ?? []), ...(json.enumType ?? []), ...(json.service ?? [])].map((one) => `${json.package}.${one.name}`),
    encoded: encoded.toString("base64"),
  }));
  const lines = files.map((file) => `  ${JSON.stringify(file)},\n`).join("");
  return `import type { ContractFile } from "${runtime}";\n\nexport const FILES = [\n${lines}] as unknown as readonly ContractFile[];\n`;
}

function generate(only: string | undefined): void {
  const projects = contractProjects();
  const chosen = only === undefined ? projects : projects.filter(({ root }) => root === only);
  if (chosen.length === 0) throw new Error(`${only} is no contract project: ${projects.map(({ root }) => root).join(", ")}`);
  const texts = generatedFiles(buildImage(PROTOS_FOLDER), projects);
  for (const { root, name } of chosen) {
    const folder = join(root, name === STANDARD ? "src" : "", GENERATED_FOLDER);
    const own = [...texts].filter(([path]) => dirname(path) === folder);
    if (own.some(([path, text]) => !existsSync(path) || readFileSync(path, "utf8") !== text))
      rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const [path, text] of own) if (!existsSync(path)) writeFileSync(path, text);
  }
}

if (import.meta.main) generate(process.argv[2]);
