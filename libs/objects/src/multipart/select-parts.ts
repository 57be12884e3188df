import { assert, ConcordError } from "@concord/runtime";
import type { ObjectStore } from "../api.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertForward } from "../page-invariants.ts";
import { decodeRowAs } from "../row-codec.ts";
import { afterKey, numberOfPart, partSpan } from "../row-keys.ts";
import type { NamedPart, PartRow, StoredChecksum, UploadRow } from "../rows.ts";
import type { ShardView } from "../shard-view.ts";
import { PART_NUMBER_MAX, PART_PAGE } from "./limits.ts";
import type { UploadName } from "./upload-view.ts";

type CompleteRequest = Parameters<ObjectStore["completeUpload"]>[0];
export type NamedParts = readonly NamedPart[];

export interface ArrivedPart {
  readonly number: number;
  readonly row: PartRow;
}

/** The object that a complete assembles from the parts that arrived. */
export interface SelectedParts {
  readonly named: readonly ArrivedPart[];
  readonly unnamed: readonly ArrivedPart[];
  readonly sizeBytes: number;
  readonly etag: string;
  readonly checksum: StoredChecksum | undefined;
}

/** Refuses a list that is wrong whatever parts arrived: MALFORMED_REQUEST, LIMIT_EXCEEDED, PART_ORDER. */
export function checkPartList(parts: NamedParts): void {
  if (parts.length === 0)
    throw new ConcordError("MALFORMED_REQUEST", "a completed upload has at least one part", { metadata: { field: "parts" } });
  if (parts.length > PART_NUMBER_MAX) {
    throw new ConcordError("LIMIT_EXCEEDED", `an upload has at most ${PART_NUMBER_MAX} parts`, { metadata: { limit: "parts" } });
  }
  for (const [at, part] of parts.entries()) {
    if (at > 0 && part.number <= parts[at - 1]!.number) {
      throw new ConcordError("PART_ORDER", "parts are named in ascending order, each once", { metadata: { number: String(part.number) } });
    }
  }
}

/** All parts that arrived, in order. */
export async function readParts(
  context: ObjectStoreContext,
  view: ShardView,
  { key, uploadId }: UploadName,
): Promise<readonly ArrivedPart[]> {
  const parts: ArrivedPart[] = [];
  const { from, to } = partSpan(key, uploadId);
  let at = from;
  for (;;) {
    const page = await context.metadata.range(view.partition, { from: at, to, limit: PART_PAGE });
    for (const row of page) {
      const number = numberOfPart(row.key);
      assert(number > (parts.at(-1)?.number ?? 0), "OGD11: the parts of an upload are read in the order of their numbers");
      parts.push({ number, row: decodeRowAs("part", row.value) });
    }
    if (page.length < PART_PAGE) return parts;
    at = assertForward(at, afterKey(page.at(-1)!.key));
  }
}

/** PART_INVALID: not there, or not as named; PART_TOO_SMALL; LIMIT_EXCEEDED. */
export function selectParts(
  context: ObjectStoreContext,
  upload: UploadRow,
  arrived: readonly ArrivedPart[],
  request: CompleteRequest,
): SelectedParts {
  const byNumber = new Map(arrived.map((part) => [part.number, part]));
  assert(byNumber.size === arrived.length, "OGD11: of a number one part arrived");
  const named = request.parts.map((wanted) => {
    const part = byNumber.get(wanted.number);
    checkPart(wanted, part?.row);
    return part!;
  });
  checkSizes(context, named);
  const names = new Set(named.map(({ number }) => number));
  const { etag, checksum } = request.combine(
    named.map(({ row }) => ({ md5Hex: row.etag, lengthBytes: row.lengthBytes, checksum: row.checksum })),
    upload.checksum,
  );
  checkWhole(request.checksum, checksum);
  const sizeBytes = named.reduce((sum, { row }) => sum + row.lengthBytes, 0);
  const unnamed = arrived.filter(({ number }) => !names.has(number));
  assert(named.length + unnamed.length === arrived.length, "OGD11: a part that arrived is named, or is garbage");
  return { named, unnamed, sizeBytes, etag, checksum };
}

function checkPart(wanted: CompleteRequest["parts"][number], row: PartRow | undefined): void {
  const matches =
    row !== undefined && row.etag === wanted.etag && (wanted.checksum === undefined || row.checksum?.value === wanted.checksum);
  if (!matches) {
    const metadata = { number: String(wanted.number), etag: wanted.etag };
    throw new ConcordError("PART_INVALID", `part ${wanted.number} did not arrive, or is another one than named`, { metadata });
  }
}

function checkSizes(context: ObjectStoreContext, named: readonly ArrivedPart[]): void {
  const { partBytesMin, objectBytesMax } = context.limits;
  for (const { number, row } of named.slice(0, -1)) {
    if (row.lengthBytes < partBytesMin) {
      const metadata = { number: String(number), sizeBytes: String(row.lengthBytes), minimumBytes: String(partBytesMin) };
      throw new ConcordError("PART_TOO_SMALL", `every part but the last has at least ${partBytesMin} bytes`, { metadata });
    }
  }
  if (named.reduce((sum, { row }) => sum + row.lengthBytes, 0) > objectBytesMax) {
    throw new ConcordError("LIMIT_EXCEEDED", `an object has at most ${objectBytesMax} bytes`, { metadata: { limit: "objectBytes" } });
  }
}

/** What the client says of the whole object. */
function checkWhole(announced: StoredChecksum | undefined, computed: StoredChecksum | undefined): void {
  if (announced === undefined) return;
  // Some clients leave the number of parts off a composite value.
  const values = computed?.type === "COMPOSITE" ? [computed.value, computed.value.replace(/-\d+$/, "")] : [computed?.value];
  if (computed?.algorithm === announced.algorithm && values.includes(announced.value)) return;
  throw new ConcordError("PART_INVALID", `the object's ${announced.algorithm} is not the one announced`, {
    metadata: { algorithm: announced.algorithm, announced: announced.value, computed: computed?.value ?? "none" },
  });
}
