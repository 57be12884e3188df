// Writes what TypeScript needs of the contracts into the git-ignored gen folder of each contract project: the types, the services and
// the files for reflection. `node tools/protos/generate.ts` does all of them, with a project's folder only that one.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  buildImage,
  mapEntry,
  type EnumJson,
  type FieldJson,
  type FileJson,
  type ImageFile,
  type MessageJson,
  type MethodJson,
} from "./image.ts";
import { contractProjects, GENERATED_FOLDER, PROTOS_FOLDER, type ContractProject } from "./proto-files.ts";
import { camelCase, packageModule, type PackageImport } from "./typescript.ts";

const STANDARD = "@concord/protos";

/** "concord.dedup.v1" -> "@concord/protos-dedup", "google.rpc" -> "@concord/protos". */
function projectName(packageName: string): string {
  const [first, second] = packageName.split(".");
  return first === "concord" ? `${STANDARD}-${second}` : STANDARD;
}

/** The module of a package: one per project of ours, several in the project of the standard contracts. */
function modulePath({ root, name }: ContractProject, packageName: string): string {
  return name === STANDARD ? join(root, "src", GENERATED_FOLDER, `${packageName}.ts`) : join(root, GENERATED_FOLDER, "index.ts");
}

function packageImport(from: string, packageName: string): PackageImport {
  const project = projectName(packageName);
  const words = packageName.split(".").filter((word) => word !== "concord" && !/^v\d/.test(word));
  const alias = words.map((word, at) => (at === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join("");
  const inside = projectName(from) === STANDARD ? `./${packageName}.ts` : `${STANDARD}/${packageName}`;
  return { packageName, alias, specifier: project === STANDARD ? inside : project };
}

/** Every generated file by its path. */
export function generatedFiles(image: readonly ImageFile[], projects: readonly ContractProject[]): Map<string, string> {
  const packageOf = new Map(image.map(({ json }) => [json.name, json.package]));
  const texts = new Map<string, string>();
  for (const [packageName, members] of Map.groupBy(image, ({ json }) => json.package)) {
    const project = projects.find((one) => one.name === projectName(packageName));
    if (project === undefined) throw new Error(`package ${packageName} has no project ${projectName(packageName)} below ${PROTOS_FOLDER}`);
    const used = new Set(members.flatMap(({ json }) => (json.dependency ?? []).map((name) => packageOf.get(name)!)));
    used.delete(packageName);
    const path = modulePath(project, packageName);
    const filesModule = path.replace(/\.ts$/, ".files.ts");
    const files = members.map(({ json }) => json);
    const imports = [...used].sort().map((one) => packageImport(packageName, one));
    const isStandard = project.name === STANDARD;
    const runtime = isStandard ? "../index.ts" : STANDARD;
    texts.set(path, packageModule({ packageName, files, imports, runtime, filesModule: `./${filesModule.split("/").at(-1)}` }));
    texts.set(filesModule, contractFilesModule(members, runtime));
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
    definitions: definitionsOf(json),
  }));
  const lines = files.map((file) => `  ${JSON.stringify(file)},\n`).join("");
  return `import type { ContractFile } from "${runtime}";\n\nexport const FILES = [\n${lines}] as unknown as readonly ContractFile[];\n`;
}

/**
 * What is needed to load a file, in protobufjs's JSON form: fields and oneofs in camelCase, as the code calls them. Its form of
 * descriptors would lose maps.
 */
function definitionsOf({ messageType, enumType, service }: FileJson): object {
  const services = (service ?? []).map(({ name, method }) => [name, { methods: Object.fromEntries((method ?? []).map(methodJson)) }]);
  return { ...typesOf(messageType, enumType), ...Object.fromEntries(services) };
}

function methodJson({ name, inputType, outputType, clientStreaming, serverStreaming }: MethodJson): [string, object] {
  const streams = { ...(clientStreaming && { requestStream: true }), ...(serverStreaming && { responseStream: true }) };
  return [name, { requestType: inputType, responseType: outputType, ...streams }];
}

function typesOf(messages: readonly MessageJson[] = [], enums: readonly EnumJson[] = []): object {
  const types = messages.filter((one) => one.options?.mapEntry !== true).map((one) => [one.name, messageJson(one)]);
  const values = enums.map((one) => [one.name, { values: Object.fromEntries(one.value.map(({ name, number }) => [name, number])) }]);
  return Object.fromEntries([...types, ...values]);
}

function messageJson(message: MessageJson): object {
  const fields = message.field ?? [];
  const oneofs = (message.oneofDecl ?? []).map(({ name }, at): [string, object] => [
    camelCase(name),
    { oneof: fields.filter((field) => field.oneofIndex === at).map((field) => field.jsonName) },
  ]);
  return {
    edition: "proto3",
    ...(oneofs.length > 0 && { oneofs: Object.fromEntries(oneofs) }),
    fields: Object.fromEntries(fields.map((field) => [field.jsonName, fieldJson(message, field)])),
    nested: typesOf(message.nestedType, message.enumType),
  };
}

function fieldJson(message: MessageJson, field: FieldJson): object {
  const entry = mapEntry(message, field);
  const optional = field.proto3Optional === true && { options: { proto3_optional: true } };
  if (entry !== undefined) return { keyType: typeName(entry.field![0]!), type: typeName(entry.field![1]!), id: field.number };
  return { ...(field.label === "LABEL_REPEATED" && { rule: "repeated" }), type: typeName(field), id: field.number, ...optional };
}

function typeName(field: FieldJson): string {
  return field.typeName ?? field.type.replace("TYPE_", "").toLowerCase();
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
