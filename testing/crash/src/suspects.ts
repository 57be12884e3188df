// Many trials of damaged blocks of rows, each with a history of its own: node testing/crash/src/suspects.ts.
import { parseArgs } from "node:util";
import { suspectTrial } from "./suspect-blocks.ts";

const HELP = `node testing/crash/src/suspects.ts [--trials N] [--seed N]

Writes, deletes, kills and reopens a store, damages blocks of its tables, opens it with crashes on the way and goes on, N times (default 50) with seeds from --seed (default 1)
on. Exit code 0 only if every read was answered with what was written last, or refused.
`;

async function main(): Promise<void> {
  const options = { trials: { type: "string", default: "50" }, seed: { type: "string", default: "1" }, help: { type: "boolean" } } as const;
  const { values } = parseArgs({ options });
  if (values.help === true) return console.log(HELP);
  const [trials, first] = [Number(values.trials), Number(values.seed)];
  const tally = { refused: 0, served: 0, healed: 0, suspect: 0, failed: 0 };
  for (let seed = first; seed < first + trials; seed += 1) {
    try {
      const { kind, suspect, isHealed } = await suspectTrial(seed);
      tally[kind] += 1;
      tally.suspect += suspect;
      if (isHealed) tally.healed += 1;
    } catch (thrown) {
      tally.failed += 1;
      console.error(thrown);
    }
  }
  console.log(
    `${trials} trials: ${tally.refused} refused as a whole, ${tally.served} served without ${tally.suspect} suspect keys, ${tally.healed} of them healed, ${tally.failed} failed`,
  );
  process.exitCode = tally.failed === 0 ? 0 : 1;
}

await main();
