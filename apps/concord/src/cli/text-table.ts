// Tables and JSON lines of verbs: the same rows for people and for programs.
import { toHex } from "@concord/runtime";

/** A function of ES2025; the types of TypeScript lack it. */
const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

/** Columns as wide as their widest cell; no blanks at the ends of lines. Without rows: the heads alone. */
export function textTable(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = heads.length === 0 ? rows : [heads, ...rows];
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const text = (line: readonly string[]): string => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
  return lines.map((line) => text(line).trimEnd()).join("\n");
}

/** Bytes as 0x..., points of time as ISO 8601, line breaks escaped so that a row stays a line; nothing for no value. */
export function cellText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value.replace(/[\n\r\t\\]/g, (character) => JSON.stringify(character).slice(1, -1));
  if (value instanceof Uint8Array) return hexText(value);
  if (value instanceof Date) return value.toISOString();
  return String(value as number | bigint | boolean);
}

/** One line. Whole numbers keep all their digits, bytes are 0x..., points of time ISO 8601. */
export function jsonLine(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => {
    if (typeof one === "bigint") return rawJSON(one.toString());
    if (one instanceof Uint8Array) return hexText(one);
    return one;
  });
}

function hexText(bytes: Uint8Array): string {
  return `0x${toHex(bytes)}`;
}
