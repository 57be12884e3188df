// What a pipeline was begun with, kept on the brokers beside its offsets: the number of partitions and the topics' ids. A folder cannot keep it, since a
// window is made anew in an empty one.
import { ConcordError } from "@concord/runtime";
import { repeated, type KafkaContext } from "./context.ts";
import { unavailable } from "./failures.ts";
import { recordOf, withRecord, type PipelineRecord } from "./fence.ts";
import { madeAnew } from "./failures.ts";

export type { PipelineRecord } from "./fence.ts";

type Known = Pick<KafkaContext, "wire" | "topics" | "pipeline" | "partitions" | "clock">;

/**
 * The records of a partition, from the metadata of two committed offsets: that of the input, which is committed with each publication and goes
 * when the input topic is deleted, and that of the dead letters, which stays then.
 */
async function recordsOf(known: Known, partition: number): Promise<readonly PipelineRecord[]> {
  const { wire, topics, pipeline } = known;
  const found = [];
  for (const topic of [topics.input, topics["dead-letters"]])
    found.push(await repeated(known, () => wire.committed(pipeline, { topic, partition })));
  return found.flatMap((committed) => recordOf(committed?.metadata ?? "") ?? []);
}

/** SCHEMA_INVALID when the pipeline was begun with another number of partitions (DDD3). */
export async function checkPipelineSize(known: Known): Promise<void> {
  for (let partition = 0; partition < known.partitions; partition += 1) {
    const [record] = await recordsOf(known, partition);
    if (record === undefined) continue;
    if (record.partitions !== known.partitions) throw otherSize("SCHEMA_INVALID", known, record.partitions);
    return;
  }
}

/** PARTITION_STOPPED when the partition belongs to other topics than those that have the names now, or to another number of partitions. */
export async function checkRecord(known: Known, partition: number, present: PipelineRecord): Promise<void> {
  for (const record of await recordsOf(known, partition)) {
    if (record.partitions !== known.partitions) throw otherSize("PARTITION_STOPPED", known, record.partitions);
    if (record.inputId !== present.inputId) throw madeAnew(known.topics.input, `its id is ${present.inputId} and was ${record.inputId}`);
    if (record.outputId !== present.outputId)
      throw madeAnew(known.topics.output, `its id is ${present.outputId} and was ${record.outputId}`);
  }
}

/** Brokers forget an offset that is not committed for long: it is committed again while the partition is open. */
export async function writeRecord(known: Known, partition: number, present: PipelineRecord): Promise<void> {
  const { wire, topics, pipeline } = known;
  const committed = { offset: 0n, metadata: withRecord("", present) };
  const deadLetters = { topic: topics["dead-letters"], partition };
  await repeated(known, () => wire.commitOffset(pipeline, deadLetters, committed)).catch((error: unknown) =>
    Promise.reject(unavailable(error)),
  );
}

function otherSize(code: "SCHEMA_INVALID" | "PARTITION_STOPPED", { pipeline, partitions }: Known, begun: number): ConcordError {
  return new ConcordError(
    code,
    `the pipeline ${pipeline} was begun with ${begun} partitions, the configuration says ${partitions}: copies of an id would not meet any more, and ` +
      `come through again, with a new data folder too (DDD3). Set partitions to ${begun} if the topics have as many; where partitions were added to a ` +
      "topic, begin a new pipeline, with a new kafkaPipeline and new topics (docs/operations.md)",
    { metadata: { stored: String(begun), configured: String(partitions) } },
  );
}
