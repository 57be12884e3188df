// `dedup-worker dead-letters list|redrive`: shows the dead letters of workers that run, or sends them to the input again.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import type { ConfigProcess } from "@concord/config";
import { ConcordError, toConcordError, type Clock, type Transport } from "@concord/runtime";
import type { DedupWorkerConfig } from "../config.ts";
import { REDRIVE_PER_SECOND, REDRIVE_PER_SECOND_MAX } from "../limits.ts";
import { DeadLetterLog } from "./dead-letter-log.ts";
import { listDeadLetters, redriveDeadLetters, type Positions } from "./redrive.ts";

export type DeadLetterCommand =
  | { readonly kind: "list" }
  | { readonly kind: "redrive"; readonly positionFile: string; readonly perSecond: number; readonly isDryRun: boolean };

const NOUN = "dead-letters";
const COMMAND_AT = 2;
const POSITION_FORMAT = 1;

export const DEAD_LETTERS_USAGE = `usage: dedup-worker dead-letters list
       dedup-worker dead-letters redrive FILE [--per-second N] [--dry-run]
  with the options of any worker; it asks the workers that they name, with clientToken. redrive sends each dead letter to the input again as it was,
  with a header "redriven" that names it, up to N in a second (${REDRIVE_PER_SECOND}). FILE keeps where it stopped: the next one goes on from there.
`;

/** The command in front of the options, and the process without it. Prints the usage and ends the process with 2 when it is none. */
export function deadLettersCommandOf(process: ConfigProcess): {
  readonly command: DeadLetterCommand | undefined;
  readonly process: ConfigProcess;
} {
  const [name, verb, ...words] = process.argv.slice(COMMAND_AT);
  if (name !== NOUN) return { command: undefined, process };
  const options = [...words];
  const command = verb === "list" ? ({ kind: "list" } as const) : verb === "redrive" ? redriveOf(options) : undefined;
  if (command === undefined) {
    process.stderr.write(DEAD_LETTERS_USAGE);
    return process.exit(2);
  }
  const { env, stdout, stderr } = process;
  const argv = [...process.argv.slice(0, COMMAND_AT), ...options];
  return { command, process: { argv, env, stdout, stderr, exit: (code) => process.exit(code) } };
}

/** Takes the command's own words out of `words`. */
function redriveOf(words: string[]): DeadLetterCommand | undefined {
  const positionFile = words.shift();
  if (positionFile === undefined || positionFile.startsWith("-")) return undefined;
  const dry = words.indexOf("--dry-run");
  if (dry >= 0) words.splice(dry, 1);
  const paced = words.indexOf("--per-second");
  const text = paced < 0 ? String(REDRIVE_PER_SECOND) : (words.splice(paced, 2)[1] ?? "");
  const perSecond = /^\d+$/.test(text) ? Number(text) : 0;
  if (perSecond < 1 || perSecond > REDRIVE_PER_SECOND_MAX) return undefined;
  return { kind: "redrive", positionFile, perSecond, isDryRun: dry >= 0 };
}

export interface DeadLetterCommandOptions {
  readonly config: DedupWorkerConfig;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly process: Pick<ConfigProcess, "stdout" | "stderr" | "exit">;
}

/** Prints what it did and ends the process: 0 when done, 1 with the reason when not, or when some could not be sent. */
export async function endWithDeadLetterCommand(command: DeadLetterCommand, options: DeadLetterCommandOptions): Promise<never> {
  const { config, transport, clock, process } = options;
  const { workers, listenAddress, clientToken: token } = config;
  const addresses = workers.length > 0 ? workers.map(({ address }) => address) : [listenAddress];
  const log = new DeadLetterLog({ addresses, transport, token, clock });
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  try {
    if (command.kind === "list") await listDeadLetters({ log, say });
    else {
      const positions = positionsIn(command.positionFile, nameOf(config));
      const { accepted, duplicates, again, refused } = await redriveDeadLetters({ ...command, log, positions, clock, say });
      if (command.isDryRun) say("nothing was sent");
      else say(`${accepted} accepted, ${duplicates} duplicates, ${again} dead letters again, ${refused} not sent`);
      if (refused > 0) return process.exit(1);
    }
  } catch (thrown) {
    process.stderr.write(`dead-letters ${command.kind}: ${toConcordError(thrown).message}\n`);
    return process.exit(1);
  } finally {
    log.close();
  }
  return process.exit(0);
}

/** Whose dead letters they are: positions of others are refused. */
function nameOf({ log, kafkaDeadLettersTopic, logFolder, dataFolder }: DedupWorkerConfig): string {
  return log === "kafka" ? `topic ${kafkaDeadLettersTopic}` : `folder ${logFolder ?? dataFolder}`;
}

interface PositionFile {
  readonly version: number;
  readonly of: string;
  readonly next: Readonly<Record<string, string>>;
}

/** Replaced as a whole: one that was cut off leaves the one before. */
function positionsIn(path: string, of: string): Positions {
  return {
    load: () => {
      if (!existsSync(path)) return new Map();
      const { version, of: found, next } = JSON.parse(readFileSync(path, "utf8")) as PositionFile;
      if (version !== POSITION_FORMAT)
        throw new ConcordError("SCHEMA_INVALID", `${path} has the format ${version}, expected ${POSITION_FORMAT}`);
      if (found !== of)
        throw new ConcordError(
          "SCHEMA_INVALID",
          `${path} has positions of the dead letters in ${found}, not of those in ${of}: name another file`,
        );
      return new Map(Object.entries(next).map(([partition, offset]) => [Number(partition), BigInt(offset)]));
    },
    save: (next) => {
      const file: PositionFile = {
        version: POSITION_FORMAT,
        of,
        next: Object.fromEntries([...next].map(([partition, offset]) => [partition, String(offset)])),
      };
      writeFileSync(`${path}.new`, `${JSON.stringify(file)}\n`);
      renameSync(`${path}.new`, path);
    },
  };
}
