// The TypeScript of one proto package: a type per message as it is decoded and one as it may be given, enums as unions of their names,
// a contract with every service. Comments of the .proto files come along.
import { mapEntry, type EnumJson, type FieldJson, type FileJson, type MessageJson, type MethodJson, type ServiceJson } from "./image.ts";

/** How another proto package is imported. */
export interface PackageImport {
  readonly packageName: string;
  /** The namespace its names are under: "common". */
  readonly alias: string;
  readonly specifier: string;
}

export interface PackageSource {
  readonly packageName: string;
  readonly files: readonly FileJson[];
  readonly imports: readonly PackageImport[];
  /** Where `contract` comes from: "@concord/protos". */
  readonly runtime: string;
  /** The module with the files of the contract. */
  readonly filesModule: string;
  /** The module with its codecs. */
  readonly codecsModule: string;
}

export const HEADER = "// Written by tools/protos/generate.ts from the .proto files: edit those.";

const SCALARS: Readonly<Record<string, string>> = {
  TYPE_DOUBLE: "number",
  TYPE_FLOAT: "number",
  TYPE_INT32: "number",
  TYPE_UINT32: "number",
  TYPE_SINT32: "number",
  TYPE_FIXED32: "number",
  TYPE_SFIXED32: "number",
  TYPE_INT64: "bigint",
  TYPE_UINT64: "bigint",
  TYPE_SINT64: "bigint",
  TYPE_FIXED64: "bigint",
  TYPE_SFIXED64: "bigint",
  TYPE_BOOL: "boolean",
  TYPE_STRING: "string",
  TYPE_BYTES: "Uint8Array",
};

type Form = "decoded" | "init";

/** Numbers of the fields of FileDescriptorProto, DescriptorProto, ... that the paths of comments are made of. */
const PATH = { message: 4, enum: 5, service: 6, field: 2, nested: 3, nestedEnum: 4, value: 2, method: 2 } as const;

export function packageModule(source: PackageSource): string {
  const body = source.files.flatMap((file) => new FileWriter(source, file).lines());
  const messages = source.files.flatMap((file) => (file.messageType ?? []).flatMap((message) => messageNames(message, "")));
  const contract = [
    `/** Package ${source.packageName}. */`,
    "export const contract: Contract<{",
    ...messages.map((name) => `  ${name}: MessageTypes<${name}, ${name}Init>;`),
    `}> = makeContract("${source.packageName}", {`,
    "  files: FILES,",
    `  imports: [${source.imports.map((one) => `${one.alias}.contract`).join(", ")}],`,
    "  messages: MESSAGES,",
    "  enums: ENUMS,",
    "  services: SERVICES,",
    "});",
  ];
  const services = source.files.flatMap((file) => (file.service ?? []).map((one) => one.name));
  const constants = services.map((name) => `export const ${name}: ${name} = contract.service("${name}");`);
  const text = [...contract, "", ...constants, "", ...body].join("\n");
  const used = (names: readonly string[]): string =>
    names.filter((name) => new RegExp(`\\b${name}<|: ${name}\\b|= ${name};`).test(text)).join(", ");
  const types = used(["Contract", "Empty", "MessageTypes", "Method", "OneOf", "OneOfInit", "ServiceContract", "UnaryMethod"]);
  const imports = [
    importOf(`{ contract as makeContract }`, source.runtime),
    importOf(`type { ${types} }`, source.runtime),
    importOf("{ FILES }", source.filesModule),
    importOf("{ ENUMS, MESSAGES, SERVICES }", source.codecsModule),
    ...source.imports.map(({ alias, specifier }) => importOf(`* as ${alias}`, specifier)),
  ];
  return [HEADER, ...imports, "", text, ""].join("\n");
}

export function importOf(names: string, specifier: string): string {
  return ["import", names, "from", `"${specifier}";`].join(" ");
}

function messageNames(message: MessageJson, outer: string): string[] {
  if (message.options?.mapEntry === true) return [];
  const name = `${outer}${message.name}`;
  return [name, ...(message.nestedType ?? []).flatMap((nested) => messageNames(nested, `${name}_`))];
}

class FileWriter {
  readonly #source: PackageSource;
  readonly #file: FileJson;
  readonly #comments: ReadonlyMap<string, string>;

  constructor(source: PackageSource, file: FileJson) {
    this.#source = source;
    this.#file = file;
    const locations = file.sourceCodeInfo?.location ?? [];
    this.#comments = new Map(locations.map((one) => [(one.path ?? []).join("."), (one.leadingComments ?? "").trim()]));
  }

  lines(): string[] {
    const { service, messageType, enumType, name } = this.#file;
    return [
      `// ${name}`,
      "",
      ...(service ?? []).flatMap((one, at) => this.#service(one, [PATH.service, at])),
      ...(messageType ?? []).flatMap((one, at) => this.#message(one, "", [PATH.message, at])),
      ...(enumType ?? []).flatMap((one, at) => this.#enum(one, "", [PATH.enum, at])),
    ];
  }

  #service({ name, method }: ServiceJson, path: readonly number[]): string[] {
    const lines = (method ?? []).flatMap((one, at) => [
      ...this.#comment([...path, PATH.method, at], "  "),
      `  readonly ${one.name}: ${this.#method(one)};`,
    ]);
    return [...this.#comment(path), `export type ${name} = ServiceContract<{`, ...lines, "}>;", ""];
  }

  #method({ inputType, outputType, clientStreaming, serverStreaming }: MethodJson): string {
    const types = [inputType, outputType].map((type) => this.#reference(type, "decoded"));
    const inits = [inputType, outputType].map((type) => this.#reference(type, "init"));
    const kind = clientStreaming === true || serverStreaming === true ? "Method" : "UnaryMethod";
    return `${kind}<${[...types, ...inits].join(", ")}>`;
  }

  #message(message: MessageJson, outer: string, path: readonly number[]): string[] {
    if (message.options?.mapEntry === true) return [];
    const name = `${outer}${message.name}`;
    return [
      ...this.#comment(path),
      ...this.#shape(message, name, path, "decoded"),
      ...this.#comment(path),
      ...this.#shape(message, name, path, "init"),
      ...(message.nestedType ?? []).flatMap((one, at) => this.#message(one, `${name}_`, [...path, PATH.nested, at])),
      ...(message.enumType ?? []).flatMap((one, at) => this.#enum(one, `${name}_`, [...path, PATH.nestedEnum, at])),
    ];
  }

  #shape(message: MessageJson, name: string, path: readonly number[], form: Form): string[] {
    const typeName = form === "decoded" ? name : `${name}Init`;
    const fields = (message.field ?? []).map((field, at) => ({ field, path: [...path, PATH.field, at] }));
    if (fields.length === 0) return [`export type ${typeName} = Empty;`, ""];
    const plain = fields.filter(({ field }) => field.oneofIndex === undefined || field.proto3Optional === true);
    const lines = plain.flatMap((one) => [
      ...this.#comment(one.path, "  ", one.field),
      `  readonly ${this.#plainField(message, one.field, form)};`,
    ]);
    const oneofs = (message.oneofDecl ?? []).flatMap(({ name: oneof }, at) => {
      const cases = fields.filter(({ field }) => field.oneofIndex === at && field.proto3Optional !== true);
      return cases.length === 0 ? [] : [this.#oneof(message, camelCase(oneof), cases, form)];
    });
    if (oneofs.length === 0) return [`export interface ${typeName} {`, ...lines, "}", ""];
    const parts = lines.length === 0 ? oneofs : [["{", ...lines, "}"].join("\n"), ...oneofs];
    return [`export type ${typeName} = ${parts.join(" & ")};`, ""];
  }

  #oneof(
    message: MessageJson,
    name: string,
    cases: readonly { readonly field: FieldJson; readonly path: readonly number[] }[],
    form: Form,
  ): string {
    const lines = cases.flatMap(({ field, path }) => [
      ...this.#comment(path, "  ", field),
      `  readonly ${field.jsonName}: ${this.#type(message, field, form)};`,
    ]);
    return [`${form === "decoded" ? "OneOf" : "OneOfInit"}<"${name}", {`, ...lines, "}>"].join("\n");
  }

  #plainField(message: MessageJson, field: FieldJson, form: Form): string {
    const isMessage = field.type === "TYPE_MESSAGE" && field.label !== "LABEL_REPEATED";
    const type = `${this.#type(message, field, form)}${isMessage ? " | null" : ""}`;
    if (form === "init") return `${field.jsonName}?: ${type} | undefined`;
    return field.proto3Optional === true ? `${field.jsonName}?: ${type}` : `${field.jsonName}: ${type}`;
  }

  #type(message: MessageJson, field: FieldJson, form: Form): string {
    const entry = mapEntry(message, field);
    if (entry !== undefined) return `Readonly<Record<string, ${this.#type(entry, entry.field![1]!, form)}>>`;
    const single = SCALARS[field.type] ?? this.#reference(field.typeName!, field.type === "TYPE_ENUM" ? "decoded" : form);
    return field.label === "LABEL_REPEATED" ? `readonly ${single}[]` : single;
  }

  /** ".concord.common.v1.RowKey" -> "common.RowKey". */
  #reference(typeName: string, form: Form): string {
    const suffix = form === "init" ? "Init" : "";
    const within = (packageName: string): string | undefined =>
      typeName.startsWith(`.${packageName}.`) ? typeName.slice(packageName.length + 2).replaceAll(".", "_") + suffix : undefined;
    const own = within(this.#source.packageName);
    if (own !== undefined) return own;
    for (const { packageName, alias } of this.#source.imports) {
      const name = within(packageName);
      if (name !== undefined) return `${alias}.${name}`;
    }
    throw new Error(`${this.#file.name} uses ${typeName} of a package it does not import`);
  }

  #enum({ name, value }: EnumJson, outer: string, path: readonly number[]): string[] {
    const lines = value.flatMap((one, at) => [...this.#comment([...path, PATH.value, at], "  "), `  | "${one.name}"`]);
    return [...this.#comment(path), `export type ${outer}${name} =`, ...lines.slice(0, -1), `${lines.at(-1)!};`, ""];
  }

  #comment(path: readonly number[], indent = "", field?: FieldJson): string[] {
    const text = this.#comments.get(path.join(".")) ?? "";
    const deprecated = field?.options?.deprecated === true ? ["@deprecated"] : [];
    const lines = [...(text === "" ? [] : text.split("\n").map((line) => line.trim())), ...deprecated].map((line) =>
      line.replaceAll("*/", "* /"),
    );
    if (lines.length === 0) return [];
    if (lines.length === 1) return [`${indent}/** ${lines[0]} */`];
    return [`${indent}/**`, ...lines.map((line) => `${indent} * ${line}`.trimEnd()), `${indent} */`];
  }
}

export function camelCase(name: string): string {
  return name.replace(/(?!^)_(.)/g, (_, letter: string) => letter.toUpperCase());
}
