// The codecs of one proto package as straight-line code: of each message a function that writes it, one that reads it and, where a
// request may hold an enum, one that finds numbers without a name. protos/src/wire-writer.ts says why fields are written backwards.
import { mapEntry, type EnumJson, type FieldJson, type FileJson, type MessageJson, type MethodJson, type ServiceJson } from "./image.ts";
import { camelCase, importOf, HEADER, type PackageImport } from "./typescript.ts";

export interface CodecSource {
  readonly packageName: string;
  readonly files: readonly FileJson[];
  /** The modules of codecs of other packages. */
  readonly imports: readonly PackageImport[];
  /** Where Reader and Writer come from: "@concord/protos". */
  readonly runtime: string;
  /** The module with the types of the package. */
  readonly typesModule: string;
  /** Rarely used: its messages are left to proto-loader. */
  readonly isLoaded: boolean;
  /** Full names, with a dot before them, of the messages for which `unknownEnumIn` is written. */
  readonly checked: ReadonlySet<string>;
}

interface Scalar {
  readonly method: string;
  readonly wireType: 0 | 1 | 2;
  /** What a field has that was not sent. */
  readonly initial: string;
  readonly type: string;
  /** The writer's method for an element of a packed list. */
  readonly packed?: string;
}

/** The types that the contracts use; Reader and Writer have a method for each. */
const SCALARS: Readonly<Record<string, Scalar>> = {
  TYPE_DOUBLE: { method: "double", wireType: 1, initial: "0", type: "number" },
  TYPE_INT32: { method: "int32", wireType: 0, initial: "0", type: "number", packed: "packedInt32" },
  TYPE_UINT32: { method: "uint32", wireType: 0, initial: "0", type: "number" },
  TYPE_SINT32: { method: "sint32", wireType: 0, initial: "0", type: "number" },
  TYPE_INT64: { method: "int64", wireType: 0, initial: "0n", type: "bigint" },
  TYPE_UINT64: { method: "uint64", wireType: 0, initial: "0n", type: "bigint" },
  TYPE_SINT64: { method: "sint64", wireType: 0, initial: "0n", type: "bigint" },
  TYPE_FIXED64: { method: "fixed64", wireType: 1, initial: "0n", type: "bigint" },
  TYPE_BOOL: { method: "bool", wireType: 0, initial: "false", type: "boolean", packed: "packedBool" },
  TYPE_STRING: { method: "string", wireType: 2, initial: '""', type: "string" },
  TYPE_BYTES: { method: "bytes", wireType: 2, initial: "NO_BYTES", type: "Uint8Array" },
};

/** The method that carries a service's unary ones as operations, in frames whose shape libs/rpc/src/frames.ts knows. */
const SESSION = "Session";
/** Of every call of a session, beside its operation. */
const TRACEPARENT_FIELD = 100;

interface Named<Json> {
  /** "Outer_Inner" */
  readonly name: string;
  readonly json: Json;
}

/** A module of the same form whose messages are proto-loader's. */
function loadedModule(source: CodecSource, messages: readonly Named<MessageJson>[], writer: CodecWriter, enums: number): string {
  if (enums > 0 || source.imports.length > 0) throw new Error(`${source.packageName} has enums or imports: generate its codecs`);
  const names = messages.map(({ name }) => name);
  const description = descriptionOf(
    source.packageName,
    source.files.flatMap(({ messageType = [] }) => messageType),
  );
  return [
    HEADER,
    importOf("{ loadedMessages }", source.runtime),
    "",
    `export const MESSAGES = loadedMessages("${source.packageName}", ${JSON.stringify(description)}, ${JSON.stringify(names)});`,
    "export const ENUMS = {};",
    ...writer.services(),
    "",
  ].join("\n");
}

/** The messages of a package as a namespace of protobufjs. */
function descriptionOf(packageName: string, messages: readonly MessageJson[]): object {
  const typeOf = (message: MessageJson): object => ({
    fields: Object.fromEntries(
      (message.field ?? []).map(({ jsonName, number: id, label, type, typeName }) => [
        jsonName,
        {
          type: typeName ?? type.replace("TYPE_", "").toLowerCase(),
          id,
          ...(label === "LABEL_REPEATED" ? { rule: "repeated" } : {}),
        },
      ]),
    ),
    oneofs: Object.fromEntries(
      (message.oneofDecl ?? []).map(({ name }, at) => {
        const cases = (message.field ?? []).filter(({ oneofIndex }) => oneofIndex === at);
        return [camelCase(name), { oneof: cases.map(({ jsonName }) => jsonName) }];
      }),
    ),
    nested: Object.fromEntries((message.nestedType ?? []).map((one) => [one.name, typeOf(one)])),
  });
  const types = Object.fromEntries(messages.map((message) => [message.name, typeOf(message)]));
  return packageName.split(".").reduceRight<object>((nested, word) => ({ nested: { [word]: nested } }), { nested: types });
}

export function codecsModule(source: CodecSource): string {
  const messages = source.files.flatMap((file) => (file.messageType ?? []).flatMap((one) => nestedMessages(one, "")));
  const enums = source.files.flatMap((file) => [
    ...(file.enumType ?? []).map((json) => ({ name: json.name, json })),
    ...(file.messageType ?? []).flatMap((one) => nestedEnums(one, "")),
  ]);
  const writer = new CodecWriter(source);
  if (source.isLoaded) return loadedModule(source, messages, writer, enums.length);
  const lines = [
    ...enums.flatMap((one) => enumTables(one)),
    ...messages.flatMap(({ name, json }) => [...writer.write(name, json), ...writer.read(name, json), ...writer.check(name, json)]),
    ...writer.messageTable(messages),
    `export const ENUMS = { ${enums.map(({ name }) => `${name}: ${name}Numbers`).join(", ")} };`,
    ...writer.services(),
  ];
  const text = lines.join("\n");
  const used = ["NO_BYTES", "setEntry(", "new Reader("].filter((use) => text.includes(use)).map((use) => use.replace(/^new |\($/g, ""));
  const types = ["Reader", "Writer"].filter((name) => !used.includes(name)).map((name) => `type ${name}`);
  const imports = [
    importOf(`{ ${[...used, ...types].join(", ")} }`, source.runtime),
    importOf("type * as types", source.typesModule),
    ...source.imports
      .filter(({ alias }) => new RegExp(`\\b${alias}\\.`).test(text))
      .map(({ alias, specifier }) => importOf(`* as ${alias}`, specifier)),
  ];
  return [HEADER, ...imports, "", text, ""].join("\n");
}

function nestedMessages(json: MessageJson, outer: string): Named<MessageJson>[] {
  if (json.options?.mapEntry === true) return [];
  const name = `${outer}${json.name}`;
  return [{ name, json }, ...(json.nestedType ?? []).flatMap((one) => nestedMessages(one, `${name}_`))];
}

function nestedEnums(json: MessageJson, outer: string): Named<EnumJson>[] {
  const name = `${outer}${json.name}_`;
  const own = (json.enumType ?? []).map((one) => ({ name: `${name}${one.name}`, json: one }));
  return [...own, ...(json.nestedType ?? []).flatMap((one) => nestedEnums(one, name))];
}

function enumTables({ name, json }: Named<EnumJson>): string[] {
  const names = json.value.map((one) => `${one.number}: "${one.name}"`);
  const numbers = json.value.map((one) => `${one.name}: ${one.number}`);
  return [
    `export const ${name}Names: Readonly<Record<number, types.${name}>> = { ${names.join(", ")} };`,
    `export const ${name}Numbers: Readonly<Record<string, number>> = { ${numbers.join(", ")} };`,
    "",
  ];
}

class CodecWriter {
  readonly #source: CodecSource;

  constructor(source: CodecSource) {
    this.#source = source;
  }

  /** Fields from the greatest number to the smallest: what is written first is last in the bytes. */
  write(name: string, message: MessageJson): string[] {
    const fields = (message.field ?? []).toSorted((a, b) => b.number - a.number);
    if (fields.length === 0) return [`export function write${name}(_w: Writer, _m: types.${name}Init): void {}`];
    return [
      `export function write${name}(w: Writer, m: types.${name}Init): void {`,
      `  if (typeof m !== "object") throw new TypeError("${name} was given a " + typeof m);`,
      ...inRuns(fields).flatMap((run) => indented(run.length === 1 ? this.#writeAny(message, run[0]!) : this.#writeCase(message, run))),
      "}",
    ];
  }

  #writeAny(message: MessageJson, field: FieldJson): string[] {
    return [`const f${field.number} = m.${field.jsonName};`, ...this.#writeField(message, field, `f${field.number}`)];
  }

  /** Cases of a oneof: the properties that are there are looked at, not each that could be. */
  #writeCase(message: MessageJson, cases: readonly FieldJson[]): string[] {
    return [
      "for (const name in m) {",
      "  switch (name) {",
      ...cases.flatMap((field) => [
        `    case "${field.jsonName}": {`,
        ...indented(this.#writeAny(message, field), 3),
        "      break;",
        "    }",
      ]),
      "  }",
      "}",
    ];
  }

  #writeField(message: MessageJson, field: FieldJson, value: string): string[] {
    const given = `if (${value} !== undefined && ${value} !== null)`;
    const entry = mapEntry(message, field);
    if (entry !== undefined) {
      return [
        `${given} {`,
        `  const keys = Object.keys(${value});`,
        "  for (let at = keys.length - 1; at >= 0; at -= 1) {",
        "    const before = w.size;",
        ...indented(indented(this.#writeOne(entry.field![1]!, `${value}[keys[at]!]!`))),
        ...indented(indented(this.#writeOne(entry.field![0]!, "keys[at]!"))),
        `    w.close(${tagOf(field, 2)}, before);`,
        "  }",
        "}",
      ];
    }
    if (field.label !== "LABEL_REPEATED") return [`${given} {`, ...indented(this.#writeOne(field, value)), "}"];
    const scalar = SCALARS[field.type];
    const isPacked = scalarWireType(field) !== 2;
    if (scalar !== undefined && isPacked && scalar.packed === undefined)
      throw new Error(`a list of ${field.type}: add it to the Writer and to SCALARS`);
    const element =
      scalar === undefined
        ? `w.packedEnum(${this.#reference(field.typeName!, "", "Numbers")}, ${value}[at]!);`
        : `w.${scalar.packed}(${value}[at]!);`;
    const one = isPacked ? [element] : this.#writeOne(field, `${value}[at]!`);
    const loop = [`for (let at = ${value}.length - 1; at >= 0; at -= 1) {`, ...indented(one), "}"];
    const body = isPacked ? ["const before = w.size;", ...loop, `w.close(${tagOf(field, 2)}, before);`] : loop;
    const test = isPacked ? `${given.slice(0, -1)} && w.list(${value}).length > 0)` : given;
    const head = isPacked ? [] : [`w.list(${value});`];
    return [`${test} {`, ...indented([...head, ...body]), "}"];
  }

  #writeOne(field: FieldJson, value: string): string[] {
    if (field.type === "TYPE_ENUM") return [`w.enum(${tagOf(field, 0)}, ${this.#reference(field.typeName!, "", "Numbers")}, ${value});`];
    if (field.type === "TYPE_MESSAGE") {
      const before = `size${field.number}`;
      return [
        `const ${before} = w.size;`,
        `${this.#reference(field.typeName!, "write")}(w, ${value});`,
        `w.close(${tagOf(field, 2)}, ${before});`,
      ];
    }
    const scalar = scalarOf(field);
    return [`w.${scalar.method}(${tagOf(field, scalar.wireType)}, ${value});`];
  }

  read(name: string, message: MessageJson): string[] {
    const fields = message.field ?? [];
    if (fields.length === 0) {
      return [`export function read${name}(r: Reader): types.${name} {`, "  while (r.more) r.skip(r.uint32());", "  return {};", "}"];
    }
    const oneofs = oneofsOf(message);
    if (oneofs.length > 1) throw new Error(`${name} has two oneofs, for which no code is written yet`);
    return [
      `export function read${name}(r: Reader): types.${name} {`,
      ...fields.filter((field) => !isCase(field)).map((field) => `  ${this.#local(message, field)}`),
      ...oneofs.map(({ cases }) => `  let set: ${cases.map((one) => one.number).join(" | ")} | undefined;\n  let value: unknown;`),
      "  while (r.more) {",
      "    const tag = r.uint32();",
      "    switch (tag >>> 3) {",
      ...fields.flatMap((field) => [
        `      case ${field.number}: {`,
        ...indented(this.#readField(message, field), 4),
        "        break;",
        "      }",
      ]),
      "      default:",
      "        r.skip(tag);",
      "    }",
      "  }",
      ...indented(returned(message, oneofs[0])),
      "}",
    ];
  }

  #local(message: MessageJson, field: FieldJson): string {
    const name = `f${field.number}`;
    const entry = mapEntry(message, field);
    if (entry !== undefined) return `const ${name}: Record<string, ${this.#typeOf(entry.field![1]!)}> = {};`;
    if (field.label === "LABEL_REPEATED") return `const ${name}: ${this.#typeOf(field)}[] = [];`;
    if (field.proto3Optional === true) return `let ${name}: ${this.#typeOf(field)} | undefined;`;
    if (field.type === "TYPE_MESSAGE") return `let ${name}: ${this.#typeOf(field)} | null = null;`;
    const initial = field.type === "TYPE_ENUM" ? `${this.#reference(field.typeName!, "", "Names")}[0]!` : scalarOf(field).initial;
    return `let ${name}: ${this.#typeOf(field)} = ${initial};`;
  }

  #readField(message: MessageJson, field: FieldJson): string[] {
    const entry = mapEntry(message, field);
    if (entry !== undefined) return this.#readEntry(entry, `f${field.number}`);
    const { before, value, after } = this.#readOne(field);
    if (isCase(field)) return [...before, `value = ${value};`, `set = ${field.number};`, ...after];
    if (field.label !== "LABEL_REPEATED") return [...before, `f${field.number} = ${value};`, ...after];
    const one = [...before, `f${field.number}.push(${value});`, ...after];
    const isPackable = scalarWireType(field) !== 2;
    if (!isPackable) return one;
    return [
      "if ((tag & 7) === 2) {",
      "  const outer = r.open();",
      `  while (r.more) f${field.number}.push(${value});`,
      "  r.close(outer);",
      `} else f${field.number}.push(${value});`,
    ];
  }

  #readEntry(entry: MessageJson, map: string): string[] {
    const valueField = entry.field![1]!;
    const { before, value, after } = this.#readOne(valueField);
    const isMessage = valueField.type === "TYPE_MESSAGE";
    const initial = isMessage ? `${this.#reference(valueField.typeName!, "read")}(new Reader(NO_BYTES))` : scalarOf(valueField).initial;
    return [
      "const entry = r.open();",
      'let key = "";',
      `let one: ${this.#typeOf(valueField)} = ${initial};`,
      "while (r.more) {",
      "  const inner = r.uint32();",
      "  switch (inner >>> 3) {",
      "    case 1:",
      "      key = r.string();",
      "      break;",
      "    case 2: {",
      ...indented([...before, `one = ${value};`, ...after], 6),
      "      break;",
      "    }",
      "    default:",
      "      r.skip(inner);",
      "  }",
      "}",
      "r.close(entry);",
      `setEntry(${map}, key, one);`,
    ];
  }

  #readOne(field: FieldJson): { readonly before: readonly string[]; readonly value: string; readonly after: readonly string[] } {
    if (field.type === "TYPE_ENUM") {
      return { before: [], value: `r.enum(${this.#reference(field.typeName!, "", "Names")})`, after: [] };
    }
    if (field.type !== "TYPE_MESSAGE") return { before: [], value: `r.${scalarOf(field).method}()`, after: [] };
    return { before: ["const outer = r.open();"], value: `${this.#reference(field.typeName!, "read")}(r)`, after: ["r.close(outer);"] };
  }

  /** Empty where the message holds no enum. */
  check(name: string, message: MessageJson): string[] {
    if (!this.#source.checked.has(`.${this.#source.packageName}.${name.replaceAll("_", ".")}`)) return [];
    const lines = (message.field ?? []).flatMap((field) => this.#checkField(message, field));
    return [`export function unknownEnumIn${name}(m: types.${name}): string | undefined {`, ...indented(lines), "  return undefined;", "}"];
  }

  #checkField(message: MessageJson, field: FieldJson): string[] {
    const isEnum = field.type === "TYPE_ENUM";
    if (!isEnum && !(field.type === "TYPE_MESSAGE" && this.#source.checked.has(field.typeName!))) return [];
    if (mapEntry(message, field) !== undefined || (isEnum && field.label === "LABEL_REPEATED"))
      throw new Error(`${message.name}.${field.name}: no check is written for enums in maps and lists`);
    if (isEnum) return [`if (typeof m.${field.jsonName} === "number") return "${field.jsonName}";`];
    const found = (value: string): string[] => [
      `const found = ${this.#reference(field.typeName!, "unknownEnumIn")}(${value});`,
      `if (found !== undefined) return "${field.jsonName}." + found;`,
    ];
    if (field.label === "LABEL_REPEATED") return [`for (const one of m.${field.jsonName}) {`, ...indented(found("one")), "}"];
    const value = `m.${field.jsonName}`;
    return [`if (${value} !== undefined && ${value} !== null) {`, ...indented(found(value)), "}"];
  }

  messageTable(messages: readonly Named<MessageJson>[]): string[] {
    const lines = messages.map(({ name }) => {
      const isChecked = this.#source.checked.has(`.${this.#source.packageName}.${name.replaceAll("_", ".")}`);
      const check = isChecked ? `, unknownEnumIn: unknownEnumIn${name}` : "";
      return `  ${name}: { write: write${name}, read: read${name}${check} },`;
    });
    return ["export const MESSAGES = {", ...lines, "};"];
  }

  services(): string[] {
    const services = this.#source.files.flatMap((file) => file.service ?? []);
    return ["export const SERVICES = {", ...services.flatMap((one) => indented(this.#service(one))), "};"];
  }

  #service({ name, method }: ServiceJson): string[] {
    const lines = (method ?? []).map((one) => {
      const streams = [
        one.clientStreaming === true ? ", requestStream: true" : "",
        one.serverStreaming === true ? ", responseStream: true" : "",
      ];
      const [request, response] = [one.inputType, one.outputType].map((type) => this.#reference(type, "MESSAGES."));
      const operations = one.name === SESSION ? `, operations: { ${this.#operations(one).join(", ")} }` : "";
      return `  ${one.name}: { request: ${request}, response: ${response}${streams.join("")}${operations} },`;
    });
    return [`${name}: {`, ...lines, "},"];
  }

  /** Of a session: every operation with its numbers in a call and in a reply. Throws when its frames have another shape. */
  #operations({ inputType, outputType }: MethodJson): string[] {
    const messages = new Map(
      this.#source.files.flatMap((file) => (file.messageType ?? []).map((one) => [`.${file.package}.${one.name}`, one])),
    );
    const casesOf = (frame: string, list: string, before: readonly string[]): FieldJson[] => {
      const one = messages.get(messages.get(frame)?.field?.find((field) => field.name === list && field.number === 1)?.typeName ?? "");
      const first = (one?.field ?? []).filter((field) => before[field.number - 1] === field.name);
      if (one === undefined || first.length !== before.length) throw new Error(`${frame} is not shaped as frames of sessions are`);
      return one.field!.filter((field) => !first.includes(field) && field.number !== TRACEPARENT_FIELD);
    };
    const replies = casesOf(outputType, "replies", ["call_id", "error"]);
    return casesOf(inputType, "calls", ["call_id", "timeout_ms"]).map(({ jsonName, number }) => {
      const reply = replies.find((one) => one.jsonName === jsonName);
      if (reply === undefined) throw new Error(`${outputType} has no reply for ${jsonName}`);
      return `${jsonName}: { call: ${number}, reply: ${reply.number} }`;
    });
  }

  #typeOf(field: FieldJson): string {
    if (field.type === "TYPE_MESSAGE") return `ReturnType<typeof ${this.#reference(field.typeName!, "read")}>`;
    if (field.type === "TYPE_ENUM") return `(typeof ${this.#reference(field.typeName!, "", "Names")})[number]`;
    return scalarOf(field).type;
  }

  /** ".concord.common.v1.RowKey" with "write" -> "common.writeRowKey". */
  #reference(typeName: string, before: string, after = ""): string {
    const { packageName, imports } = this.#source;
    const within = (name: string): string | undefined =>
      typeName.startsWith(`.${name}.`) ? `${before}${typeName.slice(name.length + 2).replaceAll(".", "_")}${after}` : undefined;
    const own = within(packageName);
    if (own !== undefined) return own;
    for (const one of imports) {
      const found = within(one.packageName);
      if (found !== undefined) return `${one.alias}.${found}`;
    }
    throw new Error(`${packageName} uses ${typeName} of a package it does not import`);
  }
}

interface OneOfCases {
  readonly name: string;
  readonly cases: readonly FieldJson[];
}

function oneofsOf(message: MessageJson): OneOfCases[] {
  return (message.oneofDecl ?? []).flatMap(({ name }, at) => {
    const cases = (message.field ?? []).filter((field) => field.oneofIndex === at && isCase(field));
    return cases.length === 0 ? [] : [{ name: camelCase(name), cases }];
  });
}

/** Whether the field is a case of a oneof; an optional field has a oneof of its own in the descriptor only. */
function isCase(field: FieldJson): boolean {
  return field.oneofIndex !== undefined && field.proto3Optional !== true;
}

/** One object literal per case: each case has one shape. */
function returned(message: MessageJson, oneof: OneOfCases | undefined): string[] {
  const plain = (message.field ?? []).filter((field) => !isCase(field));
  const members = plain.map(({ jsonName, number, proto3Optional }) =>
    proto3Optional === true ? `...(f${number} !== undefined && { ${jsonName}: f${number} })` : `${jsonName}: f${number}`,
  );
  const literal = (more: readonly string[]): string => `return { ${[...members, ...more].join(", ")} };`;
  if (oneof === undefined) return [literal([])];
  const typeOf = (field: FieldJson): string => SCALARS[field.type]?.type ?? "never";
  return [
    "switch (set) {",
    ...oneof.cases.flatMap((field) => [
      `  case ${field.number}:`,
      `    ${literal([`${oneof.name}: "${field.jsonName}"`, `${field.jsonName}: value as ${typeOf(field)}`])}`,
    ]),
    "  case undefined:",
    `    ${literal([])}`,
    "}",
  ];
}

/** Fields one by one, but the cases of a oneof together where no other field's number is between theirs. */
function inRuns(fields: readonly FieldJson[]): FieldJson[][] {
  const runs: FieldJson[][] = [];
  for (const field of fields) {
    const last = runs.at(-1);
    if (isCase(field) && last !== undefined && isCase(last[0]!)) last.push(field);
    else runs.push([field]);
  }
  return runs;
}

function scalarOf(field: FieldJson): Scalar {
  const scalar = SCALARS[field.type];
  if (scalar === undefined) throw new Error(`${field.name} has the type ${field.type}: add it to Reader, Writer and SCALARS`);
  return scalar;
}

function scalarWireType(field: FieldJson): number {
  if (field.type === "TYPE_MESSAGE") return 2;
  return field.type === "TYPE_ENUM" ? 0 : scalarOf(field).wireType;
}

function tagOf(field: FieldJson, wireType: number): number {
  return field.number * 8 + wireType;
}

function indented(lines: readonly string[], levels = 1): string[] {
  return lines.map((line) => "  ".repeat(levels) + line);
}

/** Full names, with a dot before them, of the messages in requests that hold an enum themselves or in a message of theirs. */
export function messagesToCheck(files: readonly FileJson[]): ReadonlySet<string> {
  const messages = new Map(
    files.flatMap((file) =>
      (file.messageType ?? []).flatMap((one) =>
        nestedMessages(one, "").map(({ name, json }): [string, MessageJson] => [`.${file.package}.${name.replaceAll("_", ".")}`, json]),
      ),
    ),
  );
  const inner = (name: string): string[] =>
    (messages.get(name)?.field ?? []).flatMap((field) => (field.type === "TYPE_MESSAGE" ? [field.typeName!] : []));
  const requests = files.flatMap((file) => (file.service ?? []).flatMap((one) => (one.method ?? []).map((method) => method.inputType)));
  const reached = new Set(requests);
  for (const name of reached) for (const one of inner(name)) reached.add(one);
  const hasEnum = (name: string, above: readonly string[]): boolean =>
    (messages.get(name)?.field ?? []).some((field) => field.type === "TYPE_ENUM") ||
    inner(name).some((one) => !above.includes(one) && hasEnum(one, [...above, name]));
  return new Set([...reached].filter((name) => hasEnum(name, [])));
}
