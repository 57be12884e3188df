// Small bodies: a little in the head row, more in a row beside it (I23).
import type { MetadataRow } from "@concord/ports";
import type { ObjectStoreContext } from "./context.ts";
import { versionOf } from "./head-row.ts";
import { assertAnswered } from "./page-invariants.ts";
import { decodeRowAs, encodeRow } from "./row-codec.ts";
import { bodyKey } from "./row-keys.ts";
import type { BodyRow, Content } from "./rows.ts";
import type { ShardView } from "./shard-view.ts";
import type { StoredBody } from "./store-body.ts";

/** With its bytes, where they are in rows. */
export type OpenContent = Exclude<Content, { readonly kind: "beside" }>;

/** Where the bytes go that are stored in rows: more than a little has a row of its own, which listings do not read and a version that moves does not take along. */
export function placedIn(
  { limits }: ObjectStoreContext,
  guid: bigint,
  { content, sizeBytes }: Pick<StoredBody, "content" | "sizeBytes">,
): { readonly content: Content; readonly body: BodyRow | undefined } {
  if (content.kind !== "inline" || sizeBytes <= limits.headBytesMax) return { content, body: undefined };
  return { content: { kind: "beside", guid }, body: { kind: "body", bytes: content.bytes } };
}

/** Undefined: the body was gone when it was read, so its version was (I23), or it is dangling. */
export async function openBeside(
  { metadata }: ObjectStoreContext,
  { partition, key }: Pick<ShardView, "partition" | "key">,
  content: Content,
): Promise<OpenContent | undefined> {
  if (content.kind !== "beside") return content;
  const keys = [bodyKey(key, content.guid)];
  const rows = await metadata.read(partition, keys);
  assertAnswered(rows, keys);
  const [row] = rows;
  return row === undefined ? undefined : { kind: "inline", bytes: decodeRowAs("body", row.value).bytes };
}

/**
 * The head of a view, as a journal writes it down that may have to put it back (OG19): with its body in it, since the body beside it goes with the
 * commit that replaces it.
 */
export async function headToRestore(context: ObjectStoreContext, view: ShardView): Promise<MetadataRow | undefined> {
  const [found] = view.rows;
  if (found === undefined || context.journal.mode !== "per-transaction-basic") return found;
  const { row } = versionOf(found);
  if (row.kind !== "object" || row.content.kind !== "beside") return found;
  const content = await openBeside(context, view, row.content);
  return content === undefined ? found : { ...found, value: encodeRow({ ...row, content }) };
}
