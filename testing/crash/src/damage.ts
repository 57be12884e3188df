// Flips bits and loses blocks in every kind of file of a data folder, and counts what an opening says of it: node testing/crash/src/damage.ts.
import { parseArgs } from "node:util";
import { DamageTrials, KINDS, type Harm, type Journal } from "./store-damage.ts";

const HELP = `node testing/crash/src/damage.ts [--per-kind N] [--kind NAME]...

Flips a bit, or fills a block of 4 KiB with zeros, in one file of a stopped data folder, N times (default 20) per kind of file; half of them
in a folder whose journal holds rows that LevelDB does not have, half in one whose journal is trimmed. Prints how the next opening ended.
Exit code 0 only if no row was missing that no opening told of.

  --kind NAME  only these: ${KINDS.map(({ kind }) => kind).join(", ")}
`;

async function main(): Promise<void> {
  const options = {
    "per-kind": { type: "string", default: "20" },
    kind: { type: "string", multiple: true },
    help: { type: "boolean" },
  } as const;
  const { values } = parseArgs({ options });
  if (values.help === true) return console.log(HELP);
  const perKind = Number(values["per-kind"]);
  const kinds = KINDS.filter(({ kind }) => values.kind === undefined || values.kind.includes(kind));
  if (!Number.isInteger(perKind) || perKind < 2 || kinds.length === 0) throw new Error(HELP);
  const trials = await DamageTrials.make();
  let unreported = 0;
  try {
    console.log("| file | damage | refused | newest write cut, said | all rows there | unreported |\n|---|---|---|---|---|---|");
    for (const kind of kinds) {
      for (const harm of ["bit flip", "lost block"] satisfies readonly Harm[]) {
        const total = { refused: 0, cut: 0, whole: 0, unreported: 0 };
        for (const journal of ["holds rows", "trimmed"] satisfies readonly Journal[]) {
          const half = journal === "trimmed" ? Math.floor(perKind / 2) : Math.ceil(perKind / 2);
          const tally = await trials.run(kind, journal, harm, half);
          for (const name of ["refused", "cut", "whole", "unreported"] as const) total[name] += tally[name];
        }
        unreported += total.unreported;
        console.log(`| ${kind.kind} | ${harm} | ${total.refused} | ${total.cut} | ${total.whole} | ${total.unreported} |`);
      }
    }
  } finally {
    await trials.remove();
  }
  process.exitCode = unreported === 0 ? 0 : 1;
}

await main();
