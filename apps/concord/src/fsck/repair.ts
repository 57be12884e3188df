// `concord repair DATA_FOLDER`: what of the damage that `concord fsck` finds can be mended on a stopped node, and with --apply mends it.
import { rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { nodeClock } from "@concord/adapter-node-runtime";
import { unreachable } from "@concord/runtime";
import type { FsckExit } from "./fsck.ts";
import { CannotRun, inspect, nameIn, type Damage, type Holding, type Print } from "./inspect.ts";
import { putBack, replaceCheckpoint, tryCheckpoint, tryMend, type StoreMend } from "./mend-store.ts";
import { Quarantine } from "./quarantine.ts";

export const REPAIR_HELP = `usage: concord repair DATA_FOLDER [--apply] [--from-peers] [--unproven]

Says what of the damage below DATA_FOLDER it would mend, and how; --apply does it. The nodes must be stopped. What is replaced goes to
DATA_FOLDER/quarantine-TIME, byte for byte, with the reasons in report.txt: nothing is deleted. Needs space for a copy of each damaged store.

  store: LevelDB's files are made anew and take their place when they hold exactly what the store's checkpoint counted
  store of a ring of three, --from-peers: moved away; the node copies everything from the other two, which must be whole
  rows of objects or of the dedup-worker, --unproven: a damaged checkpoint file is made of what is there. It told when rows are missing: back up first
  window of ids: moved away; the dedup-worker makes it again from its output
  journal of blobs: moved away; the scrub collects what uploads under way left
  logs of messages: not mended; restore them from a backup

Exit code 0: nothing is damaged (any more). 1: damage is left. 2: it could not run.
`;

interface Flags {
  readonly folder: string;
  readonly apply: boolean;
  readonly fromPeers: boolean;
  readonly unproven: boolean;
}

const OPTIONS = ["--apply", "--from-peers", "--unproven"] as const;

/** What becomes of one damaged place. */
type Step =
  | { readonly kind: "move"; readonly next: string }
  | { readonly kind: "level"; readonly scratch: string; readonly values: number }
  | { readonly kind: "checkpoint"; readonly values: number }
  | { readonly kind: "none"; readonly reason: string };

/** A folder to mend as one, and everything that is wrong in it. */
interface Place {
  readonly where: string;
  readonly holding: Holding;
  readonly reasons: string[];
}

/** Runs the command with its arguments. Never rejects because of what is on the disk. */
export async function repairCommand(args: readonly string[], print: Print): Promise<FsckExit> {
  const flags = readFlags(args);
  if (flags === undefined) {
    print(REPAIR_HELP);
    return args[0] === "--help" ? 0 : 2;
  }
  try {
    return await repair(flags, print);
  } catch (thrown) {
    if (!(thrown instanceof CannotRun)) throw thrown;
    print(`cannot repair: ${thrown.message}`);
    return 2;
  }
}

function readFlags(args: readonly string[]): Flags | undefined {
  const folders = args.filter((arg) => !arg.startsWith("-"));
  const isKnown = args.every((arg) => !arg.startsWith("-") || OPTIONS.some((option) => option === arg));
  if (folders.length !== 1 || !isKnown) return undefined;
  return {
    folder: resolve(folders[0]!),
    apply: args.includes("--apply"),
    fromPeers: args.includes("--from-peers"),
    unproven: args.includes("--unproven"),
  };
}

async function repair(flags: Flags, print: Print): Promise<FsckExit> {
  const { folder, apply } = flags;
  const places = placesOf(await inspect(folder, () => undefined));
  const quarantine = new Quarantine(folder, nodeClock.nowMs());
  for (const place of places) {
    for (const reason of place.reasons) print(`DAMAGED ${nameIn(folder, place.where)}: ${reason}`);
    const step = await planOf(place, flags);
    print(`  ${apply ? "" : "would be "}${describe(step, quarantine, folder)}`);
    if (apply) await carryOut(place, step, quarantine);
    if (step.kind === "level") await rm(step.scratch, { recursive: true, force: true });
  }
  if (places.length === 0) {
    print(`${folder}: nothing damaged`);
    return 0;
  }
  if (!apply) {
    print("nothing was changed: --apply does it");
    return 1;
  }
  const left = placesOf(await inspect(folder, () => undefined));
  print(left.length === 0 ? `${folder}: mended` : `${folder}: ${left.length} still damaged`);
  return left.length === 0 ? 0 : 1;
}

/** A store's journal is mended with it. */
function placesOf(damage: readonly Damage[]): readonly Place[] {
  const places = new Map<string, Place>();
  for (const { where, holding, what } of damage) {
    const isOfStore = basename(where) === "journal" && (holding === "ring-store" || holding === "lone-store");
    const root = isOfStore ? dirname(where) : where;
    const place = places.get(root) ?? { where: root, holding, reasons: [] };
    place.reasons.push(what);
    places.set(root, place);
  }
  return [...places.values()];
}

async function planOf({ where, holding }: Place, flags: Flags): Promise<Step> {
  switch (holding) {
    case "window":
      return { kind: "move", next: "the dedup-worker makes it again from its output" };
    case "upload-journal":
      return { kind: "move", next: "the scrub collects what uploads under way left" };
    case "closed-epochs":
      return { kind: "move", next: "the next start writes it from the rows of the epochs" };
    case "message-log":
      return { kind: "none", reason: "messages are there once: restore the folder from a backup" };
    case "ring-store":
    case "lone-store":
      return planOfStore(where, holding, flags);
    default:
      return unreachable(holding);
  }
}

async function planOfStore(where: string, holding: "ring-store" | "lone-store", { fromPeers, unproven }: Flags): Promise<Step> {
  const scratch = join(dirname(where), `quarantine-scratch-${process.pid}`);
  const mend = await tryMend(where, scratch);
  if (mend.kind === "proven") return { kind: "level", scratch, values: mend.values };
  await rm(scratch, { recursive: true, force: true });
  if (holding === "ring-store") {
    if (fromPeers) return { kind: "move", next: "the node copies everything from the other two" };
    return { kind: "none", reason: `${reasonOf(mend)}; with three nodes give --from-peers, else restore a backup` };
  }
  const checkpoint = await tryCheckpoint(where, undefined);
  if (checkpoint.kind !== "unproven") return { kind: "none", reason: `${reasonOf(mend)}; restore a backup` };
  if (unproven) return { kind: "checkpoint", values: checkpoint.values };
  return {
    kind: "none",
    reason: `its checkpoint alone is damaged: --unproven makes one of the ${checkpoint.values} values that are there`,
  };
}

function reasonOf(mend: StoreMend): string {
  return mend.kind === "none" ? mend.reason : "";
}

function describe(step: Step, quarantine: Quarantine, folder: string): string {
  const away = nameIn(folder, quarantine.folder);
  switch (step.kind) {
    case "move":
      return `moved to ${away}: ${step.next}`;
    case "level":
      return `made anew from its tables, proven by the checkpoint: ${step.values} values; the files of before to ${away}`;
    case "checkpoint":
      return `given a new checkpoint of ${step.values} values, without proof that none is missing; the one of before to ${away}`;
    case "none":
      return `left as it is: ${step.reason}`;
    default:
      return unreachable(step);
  }
}

async function carryOut({ where, reasons }: Place, step: Step, quarantine: Quarantine): Promise<void> {
  const reason = reasons.join("; ");
  switch (step.kind) {
    case "move":
      return quarantine.move(where, reason);
    case "level":
      return putBack(where, step.scratch, quarantine, reason);
    case "checkpoint":
      await replaceCheckpoint(where, quarantine, reason);
      return;
    case "none":
      return;
    default:
      return unreachable(step);
  }
}
