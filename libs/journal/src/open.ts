import type { Journal, JournalFindings, JournalOptions } from "./api.ts";
import { SegmentedJournal } from "./journal.ts";
import { journalLimits } from "./limits.ts";
import { recoverSegments } from "./recover.ts";

/** Opens or makes a journal. What it finds besides records is decided by the table in the README and told in `findings`. */
export async function openJournal(options: JournalOptions): Promise<{ readonly journal: Journal; readonly findings: JournalFindings }> {
  const limits = journalLimits(options.limits);
  const recovered = await recoverSegments(options);
  const journal = new SegmentedJournal(options, limits, recovered);
  try {
    await journal.begin();
  } catch (thrown) {
    await journal.close();
    throw thrown;
  }
  return { journal, findings: recovered.findings };
}
