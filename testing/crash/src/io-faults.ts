// Calls of real processes to their file system that fail, or are slow: a library is preloaded that refuses the n-th call of a kind, or delays it.
import { existsSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { compilePreload } from "./preload.ts";

const { EIO, EMFILE, ENFILE, ENOSPC } = constants.errno;
const SOURCE = join(import.meta.dirname, "io-faults.c");
const EVERY_ONE = 1_000_000_000;
/** Numbers of the call that fails: early ones are in the start, late ones under load. */
const FIRSTS = [1, 40, 3, 90, 25, 200, 15, 400, 8] as const;
/** Of calls that a short life makes few of. */
const FIRSTS_OF_FEW = [1, 2, 4, 3, 2] as const;
const FEW: ReadonlySet<string> = new Set(["rename", "open"]);
/** Faults of opens for which the process, or the machine, has no descriptor: in the start, which may end, and later, where the process is busy and goes on. */
const FIRSTS_OF_DESCRIPTORS = [30, 1, 20, 45, 8] as const;
const OUT_OF_DESCRIPTORS: ReadonlySet<number> = new Set([EMFILE, ENFILE]);

/** `count` calls of `kind` fail, from one on; with `delayMs` they succeed, so much later. */
const KINDS = [
  { kind: "sync", name: "EIO", errno: EIO, count: 1, delayMs: 0 },
  { kind: "write", name: "ENOSPC", errno: ENOSPC, count: EVERY_ONE, delayMs: 0 },
  { kind: "sync", name: "slow", errno: 0, count: EVERY_ONE, delayMs: 200 },
  { kind: "write", name: "EIO", errno: EIO, count: 1, delayMs: 0 },
  { kind: "rename", name: "EIO", errno: EIO, count: 1, delayMs: 0 },
  { kind: "open", name: "EIO", errno: EIO, count: 1, delayMs: 0 },
  { kind: "write", name: "slow", errno: 0, count: EVERY_ONE, delayMs: 30 },
  { kind: "open", name: "ENOSPC", errno: ENOSPC, count: EVERY_ONE, delayMs: 0 },
  { kind: "sync", name: "EIO, all", errno: EIO, count: EVERY_ONE, delayMs: 0 },
  { kind: "open", name: "EMFILE", errno: EMFILE, count: 20, delayMs: 0 },
  { kind: "open", name: "ENFILE, all", errno: ENFILE, count: EVERY_ONE, delayMs: 0 },
] as const;

/** Of cycle `cycle`: kinds in turn, each at another call the next time. */
export function plannedCall(cycle: number): PlannedCall {
  const turn = cycle % KINDS.length;
  const { kind, name, errno, count, delayMs } = KINDS[turn]!;
  const firsts = OUT_OF_DESCRIPTORS.has(errno) ? FIRSTS_OF_DESCRIPTORS : FEW.has(kind) ? FIRSTS_OF_FEW : FIRSTS;
  const round = Math.floor(cycle / KINDS.length);
  const first = firsts[(turn + round) % firsts.length]!;
  return { kind, name: `${kind} ${name}`, errno, first, count, delayMs };
}

interface PlannedCall {
  readonly kind: string;
  /** For the closing lines. */
  readonly name: string;
  /** 0: the calls succeed, `delayMs` later. */
  readonly errno: number;
  /** From 1. */
  readonly first: number;
  readonly count: number;
  readonly delayMs: number;
}

export interface PlannedFault {
  /** For the closing lines. */
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Whether a call has failed, or was delayed. */
  fired(): boolean;
}

/** Makes faults for the processes whose data lies below a folder. */
export class IoFaults {
  readonly #folder: string;
  readonly #library: string;

  /** Compiles the library into `folder`; throws without a C compiler. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#library = compilePreload(SOURCE, join(folder, "io-faults.so"));
  }

  /** Cycle `cycle` of a node, by `plannedCall`. */
  plan(cycle: number, node: string, dataFolder: string): PlannedFault {
    const mark = join(this.#folder, `io-fault-of-${node}`);
    const { kind, name, errno, first, count, delayMs } = plannedCall(cycle);
    rmSync(mark, { force: true });
    return {
      name,
      environment: {
        LD_PRELOAD: this.#library,
        IO_FAULT: `${kind}:${errno}:${first}:${count}:${dataFolder}`,
        IO_FAULT_MARK: mark,
        IO_DELAY_MS: String(delayMs),
      },
      fired: () => existsSync(mark),
    };
  }

  static readonly names: readonly string[] = KINDS.map(({ kind, name }) => `${kind} ${name}`);
}

/** What no failing disk may bring about: a mistake of ours ended the process, not the decision to end it. */
export const MISTAKES =
  /closed during garbage collection|AssertionError|assertion failed|unreachable value|TypeError|RangeError|already held by process/;
