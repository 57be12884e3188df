// Failures of Kafka as callers get them.
import { ConcordError } from "@concord/runtime";

export function madeAnew(topic: string, why: string): ConcordError {
  return new ConcordError(
    "PARTITION_STOPPED",
    `${topic} was deleted and made anew (${why}): its offsets begin again, and the pipeline's state is that of the former topic. Committing another offset ` +
      "does not help, messages would be passed over: begin a new pipeline, with a new kafkaPipeline and new output and dead-letter topics (docs/operations.md)",
  );
}

export function truncated(topic: string, partition: number, why: string): ConcordError {
  return new ConcordError(
    "PARTITION_STOPPED",
    `${topic}/${partition} lost messages that were read from it (${why}): a replica without them became its leader, or its disk forgot them. What ` +
      "producers wrote since then may lie before the position of this worker: let them send it again with the same ids, known ones are duplicates; then " +
      "stop the worker, commit its offset anew with Kafka's own tool, and start it (docs/operations.md)",
  );
}

/** The request did nothing, and may be made again. */
export function unavailable(cause: unknown): ConcordError {
  if (cause instanceof ConcordError) return cause;
  return new ConcordError("REPLICAS_UNAVAILABLE", `Kafka cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`, {
    cause,
  });
}
