/** The three places a value can come from. Each reader gives raw values by key and every mistake it finds. */
import { ENV_PREFIX, isRecord, type Key } from "./shape.ts";

export type SourceName = "file" | "env" | "flag";

export interface Source {
  readonly values: Readonly<Record<string, unknown>>;
  readonly problems: readonly string[];
}

/** What the command line says besides values. */
export interface Switches {
  readonly help: boolean;
  readonly version: boolean;
  readonly printConfig: boolean;
  readonly file: string | undefined;
}

export const CONFIG_FILE_ENV = `${ENV_PREFIX}CONFIG`;
/** Variables with our prefix that are not configuration: a test's failpoint, the path of the file. */
const OTHER_VARIABLES: ReadonlySet<string> = new Set([CONFIG_FILE_ENV, `${ENV_PREFIX}KILL_POINT`]);

/** Names a file that holds the value. */
const FILE_SUFFIX = "_FILE";
const SERVICE_HOST = "_SERVICE_HOST";

export function readEnv(
  keys: readonly Key[],
  env: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => string,
): Source {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  const isServiceLink = serviceLinks(env);
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(ENV_PREFIX) || OTHER_VARIABLES.has(variable) || text === undefined) continue;
    const key = keys.find((one) => one.env === variable);
    const fileOf = keys.find((one) => mayBeSecret(one) && one.env + FILE_SUFFIX === variable);
    if (key !== undefined) {
      values[key.name] = valueOf(key, text);
    } else if (fileOf !== undefined) {
      if (env[fileOf.env] !== undefined) problems.push(`${variable} and ${fileOf.env} are both given; give one`);
      else readSecret(fileOf, variable, text, readFile, values, problems);
    } else if (!isServiceLink(variable)) {
      problems.push(`environment variable ${variable} is unknown; --help lists those that exist`);
    }
  }
  return { values, problems };
}

/** Lists and objects may have secrets inside. */
function mayBeSecret({ secret, kind }: Key): boolean {
  return secret || kind === "list" || kind === "json";
}

/**
 * Kubernetes gives every container variables for each Service of its namespace: NAME_SERVICE_HOST, NAME_SERVICE_PORT..., NAME_PORT.... Those of a
 * Service whose name begins with "concord" have our prefix and are no mistakes.
 */
function serviceLinks(env: Readonly<Record<string, string | undefined>>): (variable: string) => boolean {
  const services = Object.keys(env).flatMap((name) => (name.endsWith(SERVICE_HOST) ? [name.slice(0, -SERVICE_HOST.length)] : []));
  return (variable) =>
    services.some((name) => variable === `${name}_PORT` || variable.startsWith(`${name}_PORT_`) || variable.startsWith(`${name}_SERVICE_`));
}

/** Without the line break that editors and tools leave at the end. */
function readSecret(
  key: Key,
  variable: string,
  path: string,
  readFile: (path: string) => string,
  values: Record<string, unknown>,
  problems: string[],
): void {
  try {
    values[key.name] = valueOf(key, readFile(path).replace(/\r?\n$/, ""));
  } catch (error) {
    problems.push(`${variable}: ${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The rest of an argument may be a secret, as in --client-token:SECRET. */
const NAME_OF_OPTION = /^--[A-Za-z0-9-]*/;

/**
 * No problem quotes a value, as it may be a secret. Not parseArgs: strict, it stops at the first mistake; else it takes the next option for the value of one that lacks its own.
 */
export function readFlags(keys: readonly Key[], argv: readonly string[]): Source & { readonly switches: Switches } {
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  const switches = { help: false, version: false, printConfig: false, file: undefined as string | undefined };
  const rest = [...argv];
  const valueFor = (flag: string, inline: string | undefined): string | undefined => {
    const value = inline ?? (rest[0]?.startsWith("--") === true ? undefined : rest.shift());
    if (value === undefined) problems.push(`option ${flag} needs a value`);
    return value;
  };
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    const [flag, inline] = splitFlag(argument);
    const key = keys.find((one) => one.flag === flag);
    const negated = keys.find((one) => one.kind === "boolean" && `--no-${one.flag.slice(2)}` === flag);
    if (!argument.startsWith("--")) {
      problems.push(`argument ${argv.length - rest.length} is not expected: options begin with --`);
    } else if (flag === "--help") {
      switches.help = true;
    } else if (flag === "--version") {
      switches.version = true;
    } else if (flag === "--print-config") {
      switches.printConfig = true;
    } else if (flag === "--config") {
      switches.file = valueFor(flag, inline);
    } else if (negated !== undefined) {
      values[negated.name] = false;
    } else if (key === undefined) {
      problems.push(`option ${NAME_OF_OPTION.exec(flag)![0]} is unknown; --help lists those that exist`);
      // Its value goes with it: it may be a secret after a misspelt name.
      if (inline === undefined && rest[0]?.startsWith("--") === false) rest.shift();
    } else {
      const value = key.kind === "boolean" ? (inline ?? "true") : valueFor(flag, inline);
      if (value !== undefined) values[key.name] = valueOf(key, value);
    }
  }
  return { values, problems, switches };
}

function splitFlag(argument: string): readonly [flag: string, inline: string | undefined] {
  const at = argument.indexOf("=");
  return at < 0 ? [argument, undefined] : [argument.slice(0, at), argument.slice(at + 1)];
}

export function readConfigFile(keys: readonly Key[], path: string | undefined, readFile: (path: string) => string): Source {
  if (path === undefined) return { values: {}, problems: [] };
  let text: string;
  try {
    text = readFile(path);
  } catch (thrown) {
    return { values: {}, problems: [`file ${path} cannot be read: ${thrown instanceof Error ? thrown.message : String(thrown)}`] };
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (thrown) {
    return { values: {}, problems: [`file ${path} cannot be read as JSON${placeOf(thrown)}`] };
  }
  if (!isRecord(content)) return { values: {}, problems: [`file ${path} is not one JSON object`] };
  const values: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, value] of Object.entries(content)) {
    const key = keys.find((one) => one.name === name);
    if (key === undefined) problems.push(`file ${path}: key "${name}" is unknown; --help lists those that exist`);
    else values[name] = key.kind === "bigint" && typeof value === "string" ? valueOf(key, value) : value;
  }
  return { values, problems };
}

/** The place in an error of JSON.parse, whose message quotes the text around it: secrets, perhaps. */
function placeOf(thrown: unknown): string {
  const place = thrown instanceof Error ? /\(line \d+ column \d+\)/.exec(thrown.message) : null;
  return place === null ? "" : ` ${place[0]}`;
}

/** A text as the key's kind of value. What cannot be read stays a text: the schema then says what it expected. */
function valueOf(key: Key, text: string): unknown {
  switch (key.kind) {
    case "text":
      return text;
    case "number":
      return /^-?\d+(\.\d+)?(e\d+)?$/i.test(text) ? Number(text) : text;
    case "bigint":
      return /^-?\d+$/.test(text) ? BigInt(text) : text;
    case "boolean":
      return text === "true" ? true : text === "false" ? false : text;
    case "list":
      return text.startsWith("[") ? parsed(text) : text === "" ? [] : text.split(",").map((part) => part.trim());
    case "json":
      return parsed(text);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
