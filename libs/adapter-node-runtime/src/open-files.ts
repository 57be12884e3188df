import { readFileSync } from "node:fs";

/** Files, sockets included, that this process may have open. Undefined: it has no limit, or a system that names none. */
export function openFilesMax(readLimits: () => string = () => readFileSync("/proc/self/limits", "utf8")): number | undefined {
  let limits: string;
  try {
    limits = readLimits();
  } catch {
    return undefined;
  }
  const soft = /^Max open files +(\S+)/m.exec(limits)?.[1];
  const files = Number(soft);
  return Number.isSafeInteger(files) ? files : undefined;
}
