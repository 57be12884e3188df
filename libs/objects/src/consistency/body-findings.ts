// Bodies beside rows against the rows that say so: which are not there, and which no version names (I23).
import { sameVersion, type MetadataRow } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import { commitRepeatable } from "../commit-rows.ts";
import type { ObjectStoreContext } from "../context.ts";
import { sealedLength } from "../encryption/frames.ts";
import { assertAnswered } from "../page-invariants.ts";
import { decodeRow, type Row } from "../row-codec.ts";
import { bodyKey, headKey, isBodyKey, keyOfBody, keyOfObject, nullVersionKey, versionKey } from "../row-keys.ts";
import type { StoredObject } from "../rows.ts";
import { BODIES_AT_ONCE, STRAY_LOOKS } from "./limits.ts";
import type { Oid } from "@concord/ports";

export interface DanglingReference {
  readonly partition: string;
  readonly rowKey: Uint8Array;
  /** Blob that is not there or not whole; undefined when a row is, of a part or of a body. */
  readonly oid: Oid | undefined;
  readonly reason: "absent" | "not sealed" | "another length" | "damaged" | "unreadable" | "no part row" | "no body row";
}

/** A body that no version names: nothing names it ever again. */
export interface StrayBody {
  readonly partition: string;
  readonly rowKey: Uint8Array;
  readonly key: string;
  /** Of the body as it is stored. */
  readonly lengthBytes: number;
}

type BesideObject = StoredObject & { readonly content: { readonly kind: "beside" } };

/** Rows of the page whose body is not there whole; online: looked at once more, since body and row may be gone since the page was read. */
export async function missingBodies(
  { metadata }: ObjectStoreContext,
  partition: string,
  page: readonly (readonly [MetadataRow, Row])[],
): Promise<readonly DanglingReference[]> {
  const objects = page.flatMap(([found, row]) => (isBeside(row) ? [[found, row] as const] : []));
  const missing: DanglingReference[] = [];
  for (let at = 0; at < objects.length; at += BODIES_AT_ONCE) {
    const some = objects.slice(at, at + BODIES_AT_ONCE);
    const keys = some.map(([found, { content }]) => bodyKey(keyOfObject(found.key), content.guid));
    const bodies = await metadata.read(partition, keys);
    assertAnswered(bodies, some);
    for (const [nth, [found, row]] of some.entries()) {
      const reason = wrongWith(row, bodies[nth]);
      if (reason === undefined) continue;
      const [now] = await metadata.read(partition, [found.key]);
      const rowNow = now === undefined ? undefined : readable(now);
      if (rowNow !== undefined && isBeside(rowNow) && rowNow.content.guid === row.content.guid)
        missing.push({ partition, rowKey: found.key, oid: undefined, reason });
    }
  }
  return missing;
}

function wrongWith({ sizeBytes, encryption }: BesideObject, body: MetadataRow | undefined): DanglingReference["reason"] | undefined {
  if (body === undefined) return "no body row";
  const row = readable(body);
  if (row?.kind !== "body") return "damaged";
  return row.bytes.length === (encryption === undefined ? sizeBytes : sealedLength(sizeBytes)) ? undefined : "another length";
}

/**
 * Bodies of the page that no version names. Who finds a body named by none of the three rows that may name it, between two looks at the same head, and
 * the body still there after that, knows that none will (I16, I23). A row that cannot be read may name it.
 */
export async function strayBodies(
  context: ObjectStoreContext,
  partition: string,
  page: readonly MetadataRow[],
): Promise<readonly StrayBody[]> {
  let waiting = await notOfHeads(
    context,
    partition,
    page.filter(({ key }) => isBodyKey(key)),
  );
  const unnamed: MetadataRow[] = [];
  // A head that changes meanwhile is looked at again; one that never stands still is another pass's.
  for (let look = 0; look < STRAY_LOOKS && waiting.length > 0; look += 1) {
    const changed: MetadataRow[] = [];
    for (const body of waiting) {
      const seen = await lookAt(context, partition, body);
      if (seen === "unnamed") unnamed.push(body);
      else if (seen === "changed") changed.push(body);
    }
    waiting = changed;
  }
  const still =
    unnamed.length === 0
      ? []
      : await context.metadata.read(
          partition,
          unnamed.map(({ key }) => key),
        );
  assertAnswered(still, unnamed);
  return unnamed
    .filter(({ version }, at) => sameVersion(still[at]?.version, version))
    .map(({ key, value }) => ({ partition, rowKey: key, key: keyOfBody(key), lengthBytes: lengthOf(value) }));
}

/** Most are of their key's head: those are known by few reads. */
async function notOfHeads({ metadata }: ObjectStoreContext, partition: string, bodies: readonly MetadataRow[]): Promise<MetadataRow[]> {
  const others: MetadataRow[] = [];
  for (let at = 0; at < bodies.length; at += BODIES_AT_ONCE) {
    const some = bodies.slice(at, at + BODIES_AT_ONCE);
    const heads = await metadata
      .read(
        partition,
        some.map(({ key }) => headKey(keyOfBody(key))),
      )
      .catch((thrown: unknown) => {
        // Each is looked at by itself.
        if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
        return [];
      });
    others.push(...some.filter((body, nth) => !isOfHead(heads[nth], body)));
  }
  return others;
}

function isOfHead(head: MetadataRow | undefined, body: MetadataRow): boolean {
  const row = head === undefined ? undefined : readable(head);
  return row !== undefined && isBeside(row) && sameBytes(bodyKey(keyOfBody(body.key), row.content.guid), body.key);
}

async function lookAt({ metadata }: ObjectStoreContext, partition: string, body: MetadataRow): Promise<"named" | "unnamed" | "changed"> {
  const key = keyOfBody(body.key);
  const places = [headKey(key), nullVersionKey(key), versionKey(key, { ...body.version, isNull: false })];
  try {
    const rows = await metadata.read(partition, places);
    assertAnswered(rows, places);
    if (rows.some((row) => row !== undefined && namesBody(row, key, body))) return "named";
    const [head] = await metadata.read(partition, [headKey(key)]);
    return sameVersion(head?.version, rows[0]?.version) ? "unnamed" : "changed";
  } catch (thrown) {
    if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
    return "named";
  }
}

/** CORRUPT_DATA for a row that cannot be read. */
function namesBody(found: MetadataRow, key: string, body: MetadataRow): boolean {
  const row = decodeRow(found.value);
  return isBeside(row) && sameBytes(bodyKey(key, row.content.guid), body.key);
}

const sameBytes = (left: Uint8Array, right: Uint8Array): boolean =>
  left.length === right.length && left.every((byte, at) => byte === right[at]);

/** Removes one that `strayBodies` found: no reference to it can come, so nothing else is a condition. False: it is gone already. */
export async function removeStray(context: ObjectStoreContext, { partition, rowKey }: StrayBody): Promise<boolean> {
  assert(isBodyKey(rowKey), "I23: no row but a body's goes as a body that nothing names");
  const [found] = await context.metadata.read(partition, [rowKey]);
  if (found === undefined) return false;
  const { kind } = await commitRepeatable(context, {
    partition,
    conditions: [{ key: rowKey, version: found.version }],
    writes: [{ kind: "delete", key: rowKey }],
  });
  return kind === "committed";
}

function isBeside(row: Row): row is BesideObject {
  return row.kind === "object" && row.content.kind === "beside";
}

function readable({ value }: MetadataRow): Row | undefined {
  try {
    return decodeRow(value);
  } catch {
    return undefined;
  }
}

/** 0: it cannot be read. */
function lengthOf(value: Uint8Array): number {
  const row = readable({ value } as MetadataRow);
  return row?.kind === "body" ? row.bytes.length : 0;
}
