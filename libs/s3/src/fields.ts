// Headers and query parameters alike: names with values, in the order they were sent, duplicates kept.
import { S3Error } from "./errors.ts";

export interface Fields {
  readonly entries: readonly (readonly [name: string, value: string])[];
  /** The only value, undefined when there is none; refuses a name that was sent twice (InvalidArgument). */
  one(name: string): string | undefined;
  all(name: string): readonly string[];
  has(name: string): boolean;
}

export function fieldsOf(entries: readonly (readonly [name: string, value: string])[]): Fields {
  const byName = new Map<string, string[]>();
  for (const [name, value] of entries) {
    const values = byName.get(name);
    if (values === undefined) byName.set(name, [value]);
    else values.push(value);
  }
  return {
    entries,
    one(name) {
      const values = byName.get(name);
      if (values !== undefined && values.length > 1) throw new S3Error("InvalidArgument", `${name} was sent more than once`);
      return values?.[0];
    },
    all: (name) => byName.get(name) ?? [],
    has: (name) => byName.has(name),
  };
}
