import type { z } from "zod";
import { versionText, type Build } from "./build.ts";
import { helpText } from "./help.ts";
import { keysOf, shownObject, type ConfigSchema, type Key } from "./shape.ts";
import { CONFIG_FILE_ENV, readConfigFile, readEnv, readFlags, type SourceName } from "./sources.ts";

export interface LoadOptions<Schema extends ConfigSchema> {
  /** The program's name, for the help text. */
  readonly name: string;
  readonly schema: Schema;
  /** Without the interpreter and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile: (path: string) => string;
  /** Values of keys that no source gives; the schema's own defaults are behind them. */
  readonly defaults?: Readonly<Record<string, unknown>>;
}

export type Loaded<Config> =
  | { readonly kind: "config"; readonly config: Config }
  /** --help or --print-config: print the text and exit with 0. */
  | { readonly kind: "help" | "printed"; readonly text: string }
  | { readonly kind: "version" }
  /** Every mistake of every source; print them and exit with 2. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/**
 * Reads the configuration: flags before environment before file before defaults. Unknown keys are mistakes in each of them, and
 * all mistakes are reported together. Secrets appear in no text.
 */
export function loadConfig<Schema extends ConfigSchema>(options: LoadOptions<Schema>): Loaded<z.output<Schema>> {
  const keys = keysOf(options.schema);
  const flags = readFlags(keys, options.argv);
  if (flags.switches.help) return { kind: "help", text: helpText(options.name, keys) };
  if (flags.switches.version) return { kind: "version" };
  const env = readEnv(keys, options.env, options.readFile);
  const file = readConfigFile(keys, flags.switches.file ?? options.env[CONFIG_FILE_ENV], options.readFile);
  const from = sourcesOf({ file: file.values, env: env.values, flag: flags.values });
  const parsed = options.schema.safeParse({ ...options.defaults, ...file.values, ...env.values, ...flags.values });
  const problems = [...flags.problems, ...env.problems, ...file.problems];
  if (!parsed.success) problems.push(...parsed.error.issues.map((issue) => describe(issue, keys, from)));
  if (problems.length > 0 || !parsed.success) return { kind: "invalid", problems };
  if (flags.switches.printConfig) {
    return { kind: "printed", text: `${JSON.stringify(shownObject(options.schema, parsed.data), undefined, 2)}\n` };
  }
  return { kind: "config", config: parsed.data as z.output<Schema> };
}

/** The parts of `process` that are used. */
export interface ConfigProcess {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  exit(code: number): never;
  /** Values of keys that no source gives, as in `LoadOptions`. */
  readonly defaults?: Readonly<Record<string, unknown>>;
}

/** For a main: the configuration, or prints what was asked for and exits with 0, or all mistakes and exits with 2. */
export function configOfProcess<Schema extends ConfigSchema>(
  name: string,
  schema: Schema,
  process: ConfigProcess,
  readFile: (path: string) => string,
  build: Build,
): z.output<Schema> {
  const { argv, env, defaults = {} } = process;
  const loaded = loadConfig({ name, schema, argv: argv.slice(2), env, readFile, defaults });
  if (loaded.kind === "config") return loaded.config;
  if (loaded.kind === "invalid") {
    for (const problem of loaded.problems) process.stderr.write(`${name}: ${problem}\n`);
    return process.exit(2);
  }
  process.stdout.write(loaded.kind === "version" ? versionText(name, build) : loaded.text);
  return process.exit(0);
}

/** Which source each key's value came from; later ones win. */
function sourcesOf(values: Readonly<Record<SourceName, Readonly<Record<string, unknown>>>>): ReadonlyMap<string, SourceName> {
  const order: readonly SourceName[] = ["file", "env", "flag"];
  return new Map(order.flatMap((source) => Object.keys(values[source]).map((name): [string, SourceName] => [name, source])));
}

/** zod's message names types, never values, so a secret does not leak through it. Names inside a secret are not shown: they may be its value, misplaced. */
function describe(issue: z.core.$ZodIssue, keys: readonly Key[], from: ReadonlyMap<string, SourceName>): string {
  const key = keys.find((one) => one.name === issue.path[0]);
  if (key === undefined) return issue.message;
  const source = from.get(key.name);
  if (source === undefined && key.required) return `${key.name} is missing: give ${key.flag}, ${key.env} or "${key.name}" in the file`;
  const where = source === "flag" ? key.flag : source === "env" ? key.env : `"${key.name}" in the file`;
  const path = key.secret ? "" : issue.path.slice(1).map(String).join(".");
  return `${source === undefined ? key.name : where}${path === "" ? "" : ` at ${path}`}: ${issue.message}`;
}
