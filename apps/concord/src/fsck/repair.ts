// `concord repair DATA_FOLDER`: what of the damage that `concord fsck` finds can be mended on a stopped node, and with --apply mends it.
import { rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { MENDED_SUFFIX } from "@concord/adapter-embedded-log";
import { nodeClock } from "@concord/adapter-node-runtime";
import { unreachable } from "@concord/runtime";
import { endCutRepair, putLog, putStore, salvageLog, salvageStore, type Salvage } from "./accept-loss.ts";
import type { FsckExit } from "./fsck.ts";
import type { Damage, Holding, Print } from "./damage.ts";
import { CannotRun, inspect, nameIn } from "./inspect.ts";
import { putBack, replaceCheckpoint, tryCheckpoint, tryMend, type StoreMend } from "./mend-store.ts";
import { Quarantine } from "./quarantine.ts";

export const REPAIR_HELP = `usage: concord repair DATA_FOLDER [--apply] [--from-peers] [--unproven] [--accept-loss]

Says what of the damage below DATA_FOLDER it would mend, and how; --apply does it. The nodes must be stopped. What is replaced goes to
DATA_FOLDER/quarantine-TIME, byte for byte, with the reasons in report.txt: nothing is deleted. Needs space for a copy of each damaged store.

  store: LevelDB's files are made anew and take their place when they hold exactly what the store's checkpoint counted
  store of a ring of three, --from-peers: moved away; the node copies everything from the other two, which must be whole. Refused for a node alone
  rows of objects or of the dedup-worker, --unproven: a damaged checkpoint file is made of what is there. It told when rows are missing: back up first
  window of ids: moved away; the dedup-worker makes it again from its output
  journal of blobs: moved away; the scrub collects what uploads under way left
  log of messages: made anew of its sound records where nothing is lost: input that is processed
  store or log of messages, --accept-loss: made anew of what can be read, without the rest, which is printed. The last resort: a backup may have it.
    In a ring of three the node then copies what the other two have before it serves

Exit code 0: nothing is damaged (any more). 1: damage is left. 2: it could not run.
`;

interface Flags {
  readonly folder: string;
  readonly apply: boolean;
  readonly fromPeers: boolean;
  readonly unproven: boolean;
  readonly acceptLoss: boolean;
}

/** The number of a log's partitions. */
const LAYOUT = "layout";
const OPTIONS = ["--apply", "--from-peers", "--unproven", "--accept-loss"] as const;

/** What becomes of one damaged place. */
type Step =
  | { readonly kind: "move"; readonly next: string }
  | { readonly kind: "level"; readonly scratch: string; readonly values: number }
  | { readonly kind: "checkpoint"; readonly values: number }
  /** Made anew of what can be read, in `scratch`. */
  | {
      readonly kind: "salvaged";
      readonly of: "log" | "store";
      readonly scratch: string;
      readonly kept: string;
      readonly lost: readonly string[];
    }
  | { readonly kind: "cut-repair" }
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
    acceptLoss: args.includes("--accept-loss"),
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
    if (step.kind === "level" || step.kind === "salvaged") await rm(step.scratch, { recursive: true, force: true });
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
  for (const { where, reasons } of left) for (const reason of reasons) print(`STILL DAMAGED ${nameIn(folder, where)}: ${reason}`);
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
      return planOfLog(where, flags);
    case "object-data":
      return { kind: "none", reason: "bytes of objects are there once: put the objects again" };
    case "ring-store":
    case "lone-store":
      return planOfStore(where, holding, flags);
    default:
      return unreachable(holding);
  }
}

async function planOfLog(where: string, { acceptLoss }: Flags): Promise<Step> {
  if (where.endsWith(MENDED_SUFFIX)) return { kind: "cut-repair" };
  if (basename(where) === LAYOUT) return { kind: "move", next: "the next start writes it anew, for as many partitions as there are" };
  const salvage = await salvageLog(where);
  if (salvage.kind === "none")
    return { kind: "none", reason: `messages are there once: restore the folder from a backup (${salvage.reason})` };
  return stepOf(salvage, "log", acceptLoss, "messages are there once: restore the folder from a backup");
}

/** Where something is lost, an operator has to accept it. */
async function stepOf(
  salvage: Extract<Salvage, { kind: "salvaged" }>,
  of: "log" | "store",
  isAccepted: boolean,
  reason: string,
): Promise<Step> {
  if (isAccepted || (of === "log" && salvage.lost.length === 0)) return { ...salvage, of };
  await rm(salvage.scratch, { recursive: true, force: true });
  const lost = salvage.lost.length === 0 ? "nothing that could be counted" : salvage.lost.join("; ");
  return { kind: "none", reason: `${reason}, or give --accept-loss, which keeps ${salvage.kept} and goes on without: ${lost}` };
}

/** Values may be lost that only a backup or peers have. */
async function planOfLoss(where: string, isAccepted: boolean, reason: string): Promise<Step> {
  const salvage = await salvageStore(where, "lone-store");
  if (salvage.kind === "none") return { kind: "none", reason: `${reason} (what is left cannot be used: ${salvage.reason})` };
  return stepOf(salvage, "store", isAccepted, reason);
}

/** The store itself has the names of the nodes of its ring, unless they are among what is lost. */
async function planOfRing(where: string, why: string, { fromPeers, acceptLoss }: Flags): Promise<Step> {
  const salvage = await salvageStore(where, "ring-store");
  const nodes = salvage.kind === "salvaged" ? salvage.nodes : [];
  const isAlone = nodes.length === 1;
  if (fromPeers && !isAlone) {
    if (salvage.kind === "salvaged") await rm(salvage.scratch, { recursive: true, force: true });
    return { kind: "move", next: "the node copies everything from the other two" };
  }
  const names = nodes.join(", ");
  const peers =
    nodes.length === 0 ? "with three nodes give --from-peers" : `its ring is ${names}: give --from-peers if the other two are whole`;
  const reason = isAlone ? `${why}; its ring has no other node than ${names}: restore a backup` : `${why}; ${peers}, else restore a backup`;
  if (salvage.kind === "none") return { kind: "none", reason: `${reason} (what is left cannot be used: ${salvage.reason})` };
  const kept =
    isAlone || nodes.length === 0 ? salvage.kept : `${salvage.kept}, to which the node adds what the other two have before it serves`;
  return stepOf({ ...salvage, kept }, "store", acceptLoss, reason);
}

async function planOfStore(where: string, holding: "ring-store" | "lone-store", flags: Flags): Promise<Step> {
  const { unproven, acceptLoss } = flags;
  const scratch = join(dirname(where), `quarantine-scratch-${process.pid}`);
  const mend = await tryMend(where, scratch);
  if (mend.kind === "proven") return { kind: "level", scratch, values: mend.values };
  await rm(scratch, { recursive: true, force: true });
  if (holding === "ring-store") return planOfRing(where, reasonOf(mend), flags);
  const checkpoint = await tryCheckpoint(where, undefined);
  if (checkpoint.kind !== "unproven" || (acceptLoss && !unproven))
    return planOfLoss(where, acceptLoss, `${reasonOf(mend)}; restore a backup`);
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
    case "salvaged":
      return `made anew with ${step.kept}; the files of before to ${away}; lost: ${step.lost.length === 0 ? "nothing" : step.lost.join("; ")}`;
    case "cut-repair":
      return "brought to its end: the repair before was cut off";
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
    case "salvaged": {
      const put = step.of === "log" ? putLog : putStore;
      await put(where, step.scratch, quarantine, step.lost.length === 0 ? reason : `${reason}; lost: ${step.lost.join("; ")}`);
      return;
    }
    case "cut-repair":
      return endCutRepair(where);
    case "none":
      return;
    default:
      return unreachable(step);
  }
}
