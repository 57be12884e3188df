import { HIDDEN, type Key, type Kind } from "./shape.ts";

const VALUE_NAMES: Readonly<Record<Kind, string>> = {
  text: "TEXT",
  number: "NUMBER",
  bigint: "INTEGER",
  boolean: "",
  list: "A,B,...",
  json: "JSON",
};

/** Made from the schema, so it cannot be out of date. */
export function helpText(name: string, keys: readonly Key[]): string {
  const lines = [
    `usage: ${name} [options]`,
    "",
    "Every option can also be given as environment variable or as key of a JSON file.",
    "Precedence: option, environment, file, default.",
    "The variable of a secret, a list or JSON with _FILE behind its name gives a file that holds the value.",
    "",
    "  --config FILE   CONCORD_CONFIG",
    "      JSON file with keys named as in parentheses",
    "  --print-config",
    "      print the resulting configuration without secrets and exit",
    "  --version",
    "      print the version, the commit of the build and Node's version, and exit",
    "  --help",
    "      print this text and exit",
    ...keys.flatMap(keyLines),
  ];
  return `${lines.join("\n")}\n`;
}

function keyLines(key: Key): string[] {
  const value = key.choices.length > 0 ? key.choices.join("|") : VALUE_NAMES[key.kind];
  const flag = key.kind === "boolean" ? `--[no-]${key.flag.slice(2)}` : `${key.flag} ${value}`;
  return ["", `  ${flag}   ${key.env}   (${key.name})`, `      ${key.description}`, `      ${defaultText(key)}`].filter(
    (line) => line.trim() !== "" || line === "",
  );
}

function defaultText(key: Key): string {
  if (key.required) return "required";
  if (key.fallback === undefined) return "optional";
  const { fallback } = key;
  if (key.secret) return `default: ${HIDDEN}`;
  if (typeof fallback === "string" || typeof fallback === "bigint") return `default: ${fallback}`;
  return `default: ${JSON.stringify(fallback)}`;
}
