import { pino, type DestinationStream } from "pino";
import type { Log, LogFields } from "@concord/runtime";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

export interface LogOptions {
  /** Which program writes: a field of every line. */
  readonly name: string;
  readonly level: LogLevel;
  /** Standard output by default; written synchronously, so that the last lines before an exit are not lost. */
  readonly destination?: DestinationStream;
}

/** Fields of these names never carry a secret into a log by mistake. */
const SECRET_FIELD = /token|password|secret|authorization|private.?key|credential/i;
const HIDDEN = "(hidden)";

/** JSON lines: level as a word, time as ISO 8601, 64-bit integers as decimal texts. */
export function createLog(options: LogOptions): Log {
  const logger = pino(
    {
      level: options.level,
      base: { name: options.name, pid: process.pid },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      messageKey: "message",
      formatters: { level: (label) => ({ level: label }) },
    },
    options.destination ?? standardOutput(),
  );
  const write = (level: "debug" | "info" | "warn" | "error") => (message: string, fields?: LogFields) => {
    if (!logger.isLevelEnabled(level)) return;
    if (fields === undefined) logger[level](message);
    else logger[level](printable(fields), message);
  };
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
}

/** Maximum bytes of lines that wait because they could not be written, as on a full disk; later lines are dropped. */
const UNWRITTEN_BYTES_MAX = 1024 * 1024;

/** A line that cannot be written ends no program: it is written before the next one that can be. */
function standardOutput(): DestinationStream {
  const output = pino.destination({ fd: 1, sync: true, maxLength: UNWRITTEN_BYTES_MAX });
  output.on("error", () => undefined);
  return output;
}

/** Our own keys cannot be overwritten: a field that is named like one gets an underscore. */
const RESERVED: ReadonlySet<string> = new Set(["level", "time", "name", "pid", "message"]);

function printable(fields: LogFields): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) {
    const field = RESERVED.has(key) ? `${key}_` : key;
    result[field] = SECRET_FIELD.test(key) ? HIDDEN : typeof value === "bigint" ? value.toString() : value;
  }
  return result;
}
