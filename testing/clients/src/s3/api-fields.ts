// libs/s3/src/api-fields.ts: the parameters and headers that the S3 API reference gives each operation, from the model in the newest SDK.
import { resolve } from "node:path";
import * as sdk from "@aws-sdk/client-s3";

export const API_FIELDS = resolve(import.meta.dirname, "../../../../libs/s3/src/api-fields.ts");

const OPERATION = 9;
const HEAD = `// Written by \`node testing/clients/src/s3/write-document.ts\` from the model in the newest AWS SDK; do not edit. Names of the S3 API reference: what a
// server lacks of them is refused, what is not among them is ignored.

`;
/** The SDK's own name of the operation. */
const SDK_PARAMETER = "x-id";

type Binding = Partial<Record<"httpHeader" | "httpQuery" | "httpPrefixHeaders", string>>;
type Structure = readonly [
  kind: number,
  space: string,
  name: string,
  traits: unknown,
  members: readonly string[],
  types: readonly unknown[],
];
type Operation = readonly [kind: number, space: string, name: string, traits: { readonly http: readonly string[] }, input: Structure];

interface Fields {
  readonly name: string;
  readonly subresources: readonly string[];
  readonly query: readonly string[];
  readonly headers: readonly string[];
}

function operations(): readonly Fields[] {
  const found = Object.values(sdk as Record<string, unknown>).filter((value): value is Operation => isOperation(value));
  return found.map(fieldsOf).sort((a, b) => (a.name < b.name ? -1 : 1));
}

const isOperation = (value: unknown): boolean => Array.isArray(value) && value[0] === OPERATION;

function fieldsOf([, , name, { http }, input]: Operation): Fields {
  const [, query = ""] = http[1]!.split("?");
  const structure = typeof input === "function" ? (input as () => Structure)() : input;
  const bindings = (structure[5] ?? []).flatMap((type): Binding[] => (Array.isArray(type) && isBinding(type[1]) ? [type[1]] : []));
  return {
    name,
    subresources: sorted(query.split("&").map((part) => part.split("=")[0]!)).filter((part) => part !== "" && part !== SDK_PARAMETER),
    query: sorted(bindings.flatMap(({ httpQuery }) => httpQuery ?? [])),
    headers: sorted(
      bindings.flatMap(({ httpHeader, httpPrefixHeaders }) => [
        ...(httpHeader === undefined ? [] : [httpHeader.toLowerCase()]),
        ...(httpPrefixHeaders === undefined ? [] : [`${httpPrefixHeaders.toLowerCase()}*`]),
      ]),
    ).filter((header) => header.startsWith("x-amz-")),
  };
}

const isBinding = (value: unknown): value is Binding => typeof value === "object" && value !== null;
const sorted = (names: readonly string[]): readonly string[] => [...new Set(names)].sort();

/** The two exports of the module. */
export function apiFields(): { readonly subresources: string; readonly fields: Readonly<Record<string, readonly [string, string]>> } {
  const all = operations();
  const subresources = sorted(all.flatMap((one) => one.subresources)).join(" ");
  const fields = Object.fromEntries(all.map(({ name, query, headers }) => [name, [query.join(" "), headers.join(" ")] as const]));
  return { subresources, fields };
}

/** Its text, which `npm run format` lays out. */
export function apiFieldsModule(): string {
  const { subresources, fields } = apiFields();
  const lines = Object.entries(fields).map(([name, pair]) => `  ${name}: ${JSON.stringify(pair)},`);
  return [
    `${HEAD}/** Query names that select another operation than the address alone does. */`,
    `export const API_SUBRESOURCES = ${JSON.stringify(subresources)};\n`,
    "/** Query names and x-amz-* headers by operation, divided by blanks; a trailing `*` stands for the rest of a name. */",
    "export const API_FIELDS: Readonly<Record<string, readonly [query: string, headers: string]>> = {",
    ...lines,
    "};\n",
  ].join("\n");
}
