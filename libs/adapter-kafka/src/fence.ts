// The record that a new owner writes before it reads: from then on the broker refuses what an owner before it sends, by the producer's epoch.
import type { NewMessage } from "@concord/ports";

const FENCE_HEADER = "concord-fence";

/** No message of the pipeline: readers pass over it. */
export function fenceRecord(owner: string, nowMs: number): NewMessage {
  const headers = [{ name: FENCE_HEADER, value: Buffer.from(owner) }];
  return { key: null, value: new Uint8Array(0), headers, timestampMs: nowMs };
}

export function isFence({ key, value, headers }: NewMessage): boolean {
  return (value?.length ?? 0) === 0 && (key?.length ?? 0) === 0 && headers.length === 1 && headers[0]!.name === FENCE_HEADER;
}

/** What a pipeline was begun with. */
export interface PipelineRecord {
  readonly partitions: number;
  readonly inputId: string;
  readonly outputId: string;
}

/**
 * Metadata committed with the offset: the owner, the leader epoch of the newest input that was published, the pipeline's record, and whether the owner
 * wrote without transactions, so that it is fenced by records.
 */
const SINGLE_OWNER = "\nsingle-owner";
const EPOCH = /\nepoch=(\d+)/;
const RECORD = /\npipeline partitions=(\d+) input=([0-9a-f]+) output=([0-9a-f]+)/;

export function metadataOf(owner: string, isSingle: boolean, record: PipelineRecord, epoch: number | undefined): string {
  const committed = withRecord(epoch === undefined ? owner : `${owner}\nepoch=${epoch}`, record);
  return isSingle ? `${committed}${SINGLE_OWNER}` : committed;
}
export const ownerOf = (metadata: string): string => metadata.replace(SINGLE_OWNER, "").replace(RECORD, "").replace(EPOCH, "");
export const withRecord = (owner: string, { partitions, inputId, outputId }: PipelineRecord): string =>
  `${owner}\npipeline partitions=${partitions} input=${inputId} output=${outputId}`;

/** Undefined: committed by a version before there were records. */
export function recordOf(metadata: string): PipelineRecord | undefined {
  const [, partitions, inputId, outputId] = RECORD.exec(metadata) ?? [];
  if (partitions === undefined || inputId === undefined || outputId === undefined) return undefined;
  return { partitions: Number(partitions), inputId, outputId };
}

/** Undefined: committed by a version before there were epochs, before anything was read, or by an operator. */
export function epochOf(metadata: string): number | undefined {
  const [, epoch] = EPOCH.exec(metadata) ?? [];
  return epoch === undefined ? undefined : Number(epoch);
}
export const wasSingle = (metadata: string): boolean => metadata.endsWith(SINGLE_OWNER);
