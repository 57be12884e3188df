// Which promises of the ports were tested on real engines, counted from the tests that ran.
import { relative } from "node:path";
import type { EndedTest } from "./ended-tests.ts";

/** "transactional: MessageLog contract: open: new" -> its variant, if it has one, and its port. */
const CASE = /^(?:(.+): )?([A-Za-z]+) contract: /;

/** A table of ports and adapters with the cases that passed, and those that failed; "" when none ran. */
export function contractTable(tests: readonly EndedTest[], root: string): string {
  const counts = new Map<string, { readonly port: string; readonly adapter: string; passed: number; failed: number }>();
  for (const { name, file, isPassed } of tests) {
    const [, variant, port] = CASE.exec(name) ?? [];
    if (port === undefined) continue;
    const adapter = `${relative(root, file).split("/")[1] ?? "?"}${variant === undefined ? "" : `, ${variant}`}`;
    const counted = counts.get(`${port} ${adapter}`) ?? { port, adapter, passed: 0, failed: 0 };
    if (isPassed) counted.passed += 1;
    else counted.failed += 1;
    counts.set(`${port} ${adapter}`, counted);
  }
  if (counts.size === 0) return "";
  const rows = [...counts.values()].map(({ port, adapter, passed, failed }) => [port, adapter, String(passed), String(failed)]);
  const table = [["port", "adapter", "cases", "failed"], ...rows.toSorted((one, other) => (one.join() < other.join() ? -1 : 1))];
  const widths = [0, 1].map((column) => Math.max(...table.map((row) => row[column]!.length)));
  return table
    .map(
      ([port, adapter, cases, failed]) =>
        `${port!.padEnd(widths[0]!)}  ${adapter!.padEnd(widths[1]!)}  ${cases!.padStart(5)}  ${failed!.padStart(6)}`,
    )
    .join("\n");
}
