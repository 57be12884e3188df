/** What a schema says about its keys: names in every source, kind of value, default, description, secrecy. */
import { z } from "zod";

export type ConfigSchema = z.ZodObject;

export const ENV_PREFIX = "CONCORD_";

export interface Key {
  /** "listenAddress" */
  readonly name: string;
  /** "--listen-address" */
  readonly flag: string;
  /** "CONCORD_LISTEN_ADDRESS" */
  readonly env: string;
  readonly kind: Kind;
  readonly description: string;
  /** Undefined: there is none. */
  readonly fallback: unknown;
  readonly required: boolean;
  readonly secret: boolean;
  /** The words an enum allows. */
  readonly choices: readonly string[];
}

/** How a text from a flag or the environment is read. */
export type Kind = "text" | "number" | "bigint" | "boolean" | "list" | "json";

/** Marks a value as one that is never printed. Also inside lists and objects. */
export function secret<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ ...schema.meta(), secret: true }) as Schema;
}

export function keysOf(schema: ConfigSchema): readonly Key[] {
  return Object.entries(schema.shape).map(([name, type]) => keyOf(name, type as z.ZodType));
}

function keyOf(name: string, type: z.ZodType): Key {
  const words = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const layers = layersOf(type);
  const core = layers.at(-1)!;
  const fallback = layers.find((layer) => layer instanceof z.ZodDefault)?.def.defaultValue;
  return {
    name,
    flag: `--${words}`,
    env: ENV_PREFIX + words.replaceAll("-", "_").toUpperCase(),
    kind: kindOf(core),
    description: layers.map((layer) => layer.description).find((text) => text !== undefined) ?? "",
    fallback,
    required: !layers.some((layer) => layer instanceof z.ZodDefault || layer instanceof z.ZodOptional),
    secret: layers.some(isSecret),
    choices: core instanceof z.ZodEnum ? core.options.map(String) : [],
  };
}

/** The type and what it wraps, outermost first: default, optional, ... down to the one that has values. */
function layersOf(type: z.ZodType): readonly z.ZodType[] {
  const layers: z.ZodType[] = [type];
  for (let inner = innerOf(type); inner !== undefined; inner = innerOf(inner)) layers.push(inner);
  return layers;
}

function innerOf(type: z.ZodType): z.ZodType | undefined {
  if (type instanceof z.ZodDefault || type instanceof z.ZodOptional || type instanceof z.ZodNullable || type instanceof z.ZodReadonly) {
    return type.def.innerType as z.ZodType;
  }
  return type instanceof z.ZodPipe ? (type.def.in as z.ZodType) : undefined;
}

function kindOf(core: z.ZodType): Kind {
  if (core instanceof z.ZodNumber) return "number";
  if (core instanceof z.ZodBigInt) return "bigint";
  if (core instanceof z.ZodBoolean) return "boolean";
  if (core instanceof z.ZodArray) return "list";
  if (core instanceof z.ZodObject || core instanceof z.ZodRecord || core instanceof z.ZodUnion) return "json";
  return "text";
}

function isSecret(type: z.ZodType): boolean {
  return type.meta()?.["secret"] === true;
}

export const HIDDEN = "(hidden)";

/** A value as it may be shown: secrets hidden, bigints as decimal texts. */
export function shown(type: z.ZodType, value: unknown): unknown {
  const layers = layersOf(type);
  if (value === undefined) return undefined;
  if (layers.some(isSecret)) return HIDDEN;
  if (typeof value === "bigint") return value.toString();
  const core = layers.at(-1)!;
  if (core instanceof z.ZodArray && Array.isArray(value)) return value.map((item) => shown(core.element as z.ZodType, item));
  if (core instanceof z.ZodObject && isRecord(value)) return shownObject(core, value);
  if (core instanceof z.ZodRecord && isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shown(core.valueType as z.ZodType, one)]));
  }
  return value;
}

export function shownObject(schema: z.ZodObject, value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shown(schema.shape[key] as z.ZodType, one)]));
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
