// `concord fsck DATA_FOLDER`: what a start would refuse, and more, without a start.
import { resolve } from "node:path";
import { unreachable } from "@concord/runtime";
import type { Damage, Print } from "./damage.ts";
import { CannotRun, inspect, nameIn } from "./inspect.ts";

export const FSCK_HELP = `usage: concord fsck DATA_FOLDER [--blobs]

Checks what a stopped node, or several, keep below DATA_FOLDER: LevelDB's tables block by block, every store's journal, checkpoint, counts and
sums, the logs of messages, the journal of blobs and the file of closed epochs. Takes the lock of each store, as a start does; journals, logs and blobs are only
read, LevelDB brings its own log into tables as at every start. Prints what is damaged, where, and what to do.

--blobs reads the data of objects, too, every byte, and names the objects whose bytes are not what was written: it takes as long as the disk needs for all of it.

Exit code 0: all as it was acknowledged. 1: damage. 2: the check could not run (no such folder, a process has it).
`;

const BLOBS = "--blobs";

export type FsckExit = 0 | 1 | 2;

/** Runs the command with its arguments. Never rejects because of what is on the disk. */
export async function fsckCommand(args: readonly string[], print: Print): Promise<FsckExit> {
  const [folder, ...others] = args.toSorted((left, right) => Number(left.startsWith("-")) - Number(right.startsWith("-")));
  if (args[0] === "--help") {
    print(FSCK_HELP);
    return 0;
  }
  if (folder === undefined || folder.startsWith("-") || others.some((other) => other !== BLOBS)) {
    print(FSCK_HELP);
    return 2;
  }
  try {
    return await check(resolve(folder), others.includes(BLOBS), print);
  } catch (thrown) {
    if (!(thrown instanceof CannotRun)) throw thrown;
    print(`cannot check: ${thrown.message}`);
    return 2;
  }
}

async function check(folder: string, withBlobs: boolean, print: Print): Promise<FsckExit> {
  const damage = await inspect(folder, print, withBlobs);
  for (const one of damage) print(`DAMAGED ${nameIn(folder, one.where)}: ${one.what}\n  do: ${remedyOf(one)}`);
  print(damage.length === 0 ? `${folder}: nothing damaged` : `${folder}: ${damage.length} damaged`);
  return damage.length === 0 ? 0 : 1;
}

const RESTORE = "restore the node's data folder from a backup";
const ACCEPT = "see with concord repair what is lost, and go on without it (--accept-loss)";

/** Rows of a ring are there three times, everything else once. */
function remedyOf({ holding }: Damage): string {
  switch (holding) {
    case "ring-store":
      return `concord repair mends what it can prove, and with three nodes moves the store away (--from-peers): the node copies from the other two, if they are whole. Else ${RESTORE}, or ${ACCEPT}`;
    case "lone-store":
      return `concord repair mends what it can prove. Else ${RESTORE}, or ${ACCEPT}`;
    case "window":
      return "concord repair moves it away; the dedup-worker makes it again from its output at its next start";
    case "upload-journal":
      return "concord repair moves it away; the next scrub collects blobs of uploads that were under way";
    case "closed-epochs":
      return "concord repair moves it away; the next start writes it from the rows of the epochs. First stop every gateway that shares the folder";
    case "message-log":
      return `concord repair mends it where nothing is lost. Else ${RESTORE}, or ${ACCEPT}`;
    case "object-data":
      return "reading this object fails, all others are served: put it again, or put the file back from a backup";
    default:
      return unreachable(holding);
  }
}
