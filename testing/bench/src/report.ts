import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";

/** Cells of a table; the first row is the head. Numbers are right-aligned. */
export function renderTable(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const cell = (text: string, column: number): string =>
    /^[-\d.]/.test(text) ? text.padStart(widths[column]!) : text.padEnd(widths[column]!);
  const lines = rows.map((row) => row.map(cell).join("  ").trimEnd());
  return [lines[0], widths.map((width) => "-".repeat(width)).join("  "), ...lines.slice(1)].join("\n");
}

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly kernel: string;
  readonly date: string;
}

export function machine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    kernel: execFileSync("uname", ["-sr"], { encoding: "utf8" }).trim(),
    date: new Date().toISOString(),
  };
}

export function machineLine(of: Machine): string {
  return `${of.cores} cores (${of.cpu}), ${of.memoryGiB} GiB, Node ${of.node}, ${of.kernel}, ${of.date}`;
}

export function writeReport(file: string | undefined, report: object): void {
  if (file === undefined) return;
  writeFileSync(file, `${JSON.stringify(report, undefined, 2)}\n`);
  console.log(`\nwritten: ${file}`);
}
