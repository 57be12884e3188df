import { sameVersion, type MetadataRow } from "@concord/ports";
import type { ObjectStoreContext } from "../context.ts";
import { versionOf, type VersionRow } from "../head-row.ts";
import { assertForward } from "../page-invariants.ts";
import { afterKey, headKey, nullVersionKey, versionsOfKeySpan } from "../row-keys.ts";
import type { Versioned } from "../shard-view.ts";
import { isNewer, nameOf } from "../versions.ts";
import { LIFECYCLE_VERSIONS_PAGE } from "./limits.ts";

/** A version that is not current, with the one after it. */
export interface OlderVersion {
  readonly found: Versioned<VersionRow>;
  readonly successor: Versioned<VersionRow>;
  /** How many versions that are not current are newer. */
  readonly newer: number;
}

/** Another head was written while the versions behind it were read. */
export class HeadChanged extends Error {}

/**
 * Versions behind exactly this head, newest first, a page in memory at a time. HeadChanged, before anything that is wrong by it was given: a version
 * becomes an earlier one only by a commit on the head (I16).
 */
export async function* olderVersions(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  head: Versioned<VersionRow>,
): AsyncGenerator<OlderVersion, void, undefined> {
  const [nowHead, nullRow] = await context.metadata.read(partition, [headKey(key), nullVersionKey(key)]);
  if (!sameVersion(nowHead?.version, head.version)) throw new HeadChanged();
  let [successor, newer] = [head, 0];
  for await (const row of merged(versionRows(context, partition, key), nullRow)) {
    const found = versionOf(row);
    if (!isNewer(nameOf(successor), nameOf(found))) throw new HeadChanged();
    yield { found, successor, newer };
    successor = found;
    newer += 1;
  }
}

async function* merged(rows: AsyncIterable<MetadataRow>, nullRow: MetadataRow | undefined): AsyncGenerator<MetadataRow, void, undefined> {
  let waiting = nullRow;
  for await (const row of rows) {
    if (waiting !== undefined && isNewer(nameOf(versionOf(waiting)), nameOf(versionOf(row)))) {
      yield waiting;
      waiting = undefined;
    }
    yield row;
  }
  if (waiting !== undefined) yield waiting;
}

async function* versionRows(
  { metadata }: ObjectStoreContext,
  partition: string,
  key: string,
): AsyncGenerator<MetadataRow, void, undefined> {
  const { to, from: start } = versionsOfKeySpan(key);
  let from = start;
  for (;;) {
    const page = await metadata.range(partition, { from, to, limit: LIFECYCLE_VERSIONS_PAGE });
    yield* page;
    if (page.length < LIFECYCLE_VERSIONS_PAGE) return;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
}
