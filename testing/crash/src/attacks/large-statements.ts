// A user with a token who sends large statements, each of them another one: servers keep parsed statements for the next caller with the same text.
import type { Attack } from "./attack.ts";

const STATEMENTS = 300;
/** The most that one batch may have. */
const DELETIONS = 1_000;

/** 60 KiB of text, 1.5 MiB as parsed. Its columns are unknown, so it is refused after it was parsed. */
function largeStatement(number: number): string {
  return `BEGIN BATCH ${`DELETE FROM Counted WHERE id=${number} AND b=2 AND c=3 AND d=4 AND e=5;`.repeat(DELETIONS)} APPLY BATCH`;
}

export const largeStatements: Attack = {
  name: "large-statements",
  symptom: "300 statements of 60 KiB took 581 MiB of resident memory, for good: a thousand parsed ones were kept, whatever their size",
  isShort: true,
  // Garbage of parsing takes some 220 MiB.
  growthMiBMax: 384,
  async run(target) {
    const db = await target.client.connect({ coordinators: [target.address], token: target.clientToken });
    try {
      let refused = 0;
      for (let number = 0; number < STATEMENTS; number += 1) {
        try {
          await db.executeCql(largeStatement(number));
          target.fail("a statement with unknown columns was carried out");
        } catch (thrown) {
          if (!(thrown instanceof target.client.ConcordClientError)) throw thrown;
          refused += 1;
          if (number === 0) target.note(`each is refused: ${thrown.code} ${thrown.message.slice(0, 80)}`);
        }
      }
      target.note(`${refused} statements of ${largeStatement(0).length} characters refused`);
      await target.serves("after large statements were parsed");
    } finally {
      db.close();
    }
  },
};
