import { readFileSync } from "node:fs";

/** The file with each ${name} replaced. A name without a value is a mistake of ours. */
export function fillTemplate(path: string, values: Readonly<Record<string, string | number>>): string {
  return readFileSync(path, "utf8").replace(/\$\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${path} names \${${name}}, which has no value`);
    return String(value);
  });
}
