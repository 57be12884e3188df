// What processes cost, as Linux counts it; zero where there is no /proc.
import { readdirSync, readFileSync } from "node:fs";

const TICKS_PER_SECOND = 100;

/** CPU seconds of a process, its ended children that were waited for included. */
export function cpuSeconds(pid: number): number {
  const fields = statOf(pid);
  // utime, stime, cutime, cstime
  return fields === undefined ? 0 : [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0) / TICKS_PER_SECOND;
}

/** CPU seconds of the ended children of a process. */
export function childCpuSeconds(pid: number): number {
  const fields = statOf(pid);
  return fields === undefined ? 0 : (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND;
}

/** Memory of the processes in MiB: pages that several of them share are counted once (PSS). */
export function memoryMiB(pids: readonly number[]): number {
  let kiB = 0;
  for (const pid of pids) {
    try {
      kiB += Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0);
    } catch {
      // It has ended.
    }
  }
  return kiB / 1024;
}

/** A process and all below it. */
export function processTree(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    const parent = Number(statOf(Number(name))?.[1] ?? 0);
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [root];
  for (let at = 0; at < tree.length; at += 1) tree.push(...(children.get(tree[at]!) ?? []));
  return tree;
}

/** Fields of /proc/PID/stat from the third on. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}
