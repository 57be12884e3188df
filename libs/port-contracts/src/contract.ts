import { ConcordError } from "@concord/runtime";

/** One promise of a port: throws when the implementation breaks it. Data, so that it runs on seeded faulty implementations too. */
export interface ContractCase<Subject> {
  readonly name: string;
  run(open: () => Promise<Subject>): Promise<void>;
}

/** node:test's `test`, passed in because this layer imports nothing. */
export type TestFunction = (name: string, run: () => Promise<void>) => unknown;

export function registerContract<Subject>(
  test: TestFunction,
  port: string,
  cases: readonly ContractCase<Subject>[],
  open: () => Promise<Subject>,
): void {
  for (const contractCase of cases) test(`${port} contract: ${contractCase.name}`, () => contractCase.run(open));
}

/** Names of the cases the implementation fails: how a suite's own test finds seeded faults. */
export async function failedCases<Subject>(cases: readonly ContractCase<Subject>[], open: () => Promise<Subject>): Promise<string[]> {
  const failed: string[] = [];
  for (const contractCase of cases) {
    try {
      await contractCase.run(open);
    } catch {
      failed.push(contractCase.name);
    }
  }
  return failed;
}

/** Deep equality by a text that tells everything a port's values are made of apart. */
export function expectEqual(actual: unknown, expected: unknown, what: string): void {
  const [left, right] = [describe(actual), describe(expected)];
  if (left !== right) throw new ConcordError("INTERNAL", `${what}: got ${left}, expected ${right}`);
}

export async function expectCode(action: () => Promise<unknown>, code: string, what: string): Promise<void> {
  try {
    await action();
  } catch (thrown) {
    expectEqual(thrown instanceof ConcordError ? thrown.code : String(thrown), code, what);
    return;
  }
  throw new ConcordError("INTERNAL", `${what}: succeeded, expected ${code}`);
}

function describe(value: unknown): string {
  if (value === undefined) return "undefined";
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Uint8Array) return `bytes(${[...value].join(" ")})`;
  if (value instanceof Map)
    return `map{${[...value]
      .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
      .map(([key, item]) => `${describe(key)}:${describe(item)}`)
      .join(",")}}`;
  if (Array.isArray(value)) return `[${value.map(describe).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${fields.map(([key, item]) => `${key}:${describe(item)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}
