import { TIMESTAMP_ZERO, unreachable, type TimestampUs } from "@concord/runtime";
import type { CellImage, Mutation, Row, RowImage, RowKey } from "@concord/ports";
import { compareValues, type CellValue } from "@concord/values";

/**
 * Conflict resolution: the larger timestamp wins (TX7); on a tie a tombstone wins, then the larger value. Merging is commutative,
 * associative and idempotent (I1 of the rows README), so replicas converge whatever the order of delivery (LB10).
 */
export function mergeImages(left: RowImage, right: RowImage): RowImage {
  const deletedAtUs = maxTimestamp(left.deletedAtUs, right.deletedAtUs);
  const markerUs = above(maxTimestamp(left.markerUs, right.markerUs), deletedAtUs);
  const cells = new Map<string, CellImage>();
  for (const [column, cell] of left.cells) {
    if (deletedAtUs === undefined || cell.timestampUs > deletedAtUs) cells.set(column, cell);
  }
  for (const [column, cell] of right.cells) {
    if (deletedAtUs !== undefined && cell.timestampUs <= deletedAtUs) continue;
    const present = cells.get(column);
    cells.set(column, present === undefined ? cell : newerCell(present, cell));
  }
  return { key: left.key, deletedAtUs, markerUs, cells };
}

export function imageOf(mutation: Mutation): RowImage {
  const { key, timestampUs } = mutation;
  switch (mutation.kind) {
    case "delete":
      return { key, deletedAtUs: timestampUs, markerUs: undefined, cells: new Map() };
    case "insert":
    case "update": {
      const cells = new Map<string, CellImage>();
      for (const { column, value } of mutation.columns) cells.set(column, { timestampUs, value });
      return { key, deletedAtUs: undefined, markerUs: mutation.kind === "insert" ? timestampUs : undefined, cells };
    }
    default:
      return unreachable(mutation);
  }
}

export function emptyImage(key: RowKey): RowImage {
  return { key, deletedAtUs: undefined, markerUs: undefined, cells: new Map() };
}

/** The live row, or undefined when nothing of it lives. */
export function liveRow(image: RowImage | undefined): Row | undefined {
  if (image === undefined) return undefined;
  const columns = new Map<string, CellValue>();
  image.cells.forEach(({ value }, column) => {
    if (value !== null) columns.set(column, value);
  });
  if (columns.size === 0 && image.markerUs === undefined) return undefined;
  return { key: image.key, columns, newestUs: newestTimestamp(image) };
}

/** The largest timestamp in the image, tombstones included; 0 for an empty one. */
export function newestTimestamp(image: RowImage): TimestampUs {
  let newest = maxTimestamp(image.deletedAtUs, image.markerUs) ?? TIMESTAMP_ZERO;
  image.cells.forEach(({ timestampUs }) => {
    if (timestampUs > newest) newest = timestampUs;
  });
  return newest;
}

/**
 * The newest timestamp in `stored` that keeps a part of `change` from having its effect; 0 = all of it has. A deletion has it wherever the row is
 * dead afterwards, so a newer deletion does not keep it from anything.
 */
export function supersedingUs(stored: RowImage, change: RowImage): TimestampUs {
  let newest = TIMESTAMP_ZERO;
  const noted = (timestampUs: TimestampUs | undefined): void => {
    if (timestampUs !== undefined && timestampUs > newest) newest = timestampUs;
  };
  const { deletedAtUs, markerUs } = change;
  const isHidden = (timestampUs: TimestampUs): boolean => stored.deletedAtUs !== undefined && stored.deletedAtUs >= timestampUs;
  if (markerUs !== undefined && stored.markerUs === undefined && isHidden(markerUs)) noted(stored.deletedAtUs);
  change.cells.forEach((cell, column) => {
    const present = stored.cells.get(column);
    if (present !== undefined && compareValues(present.value, cell.value) === 0) return;
    if (present !== undefined && newerCell(present, cell) !== cell) noted(present.timestampUs);
    else if (cell.value !== null && isHidden(cell.timestampUs)) noted(stored.deletedAtUs);
  });
  // A deletion before the change's own cells makes way for them: what outlives it is a cell that the change does not write.
  if (deletedAtUs === undefined) return newest;
  if (stored.markerUs !== undefined && stored.markerUs > deletedAtUs && markerUs === undefined) noted(stored.markerUs);
  stored.cells.forEach(({ timestampUs, value }, column) => {
    if (value !== null && timestampUs > deletedAtUs && !change.cells.has(column)) noted(timestampUs);
  });
  return newest;
}

export function sameImage(left: RowImage | undefined, right: RowImage | undefined): boolean {
  if (left === undefined || right === undefined) return left === right;
  if (left.deletedAtUs !== right.deletedAtUs || left.markerUs !== right.markerUs || left.cells.size !== right.cells.size) return false;
  for (const [column, cell] of left.cells) {
    const other = right.cells.get(column);
    if (other === undefined || other.timestampUs !== cell.timestampUs || compareValues(other.value, cell.value) !== 0) return false;
  }
  return true;
}

function newerCell(left: CellImage, right: CellImage): CellImage {
  if (left.timestampUs !== right.timestampUs) return left.timestampUs > right.timestampUs ? left : right;
  return compareValues(left.value, right.value) >= 0 ? left : right;
}

function maxTimestamp(left: TimestampUs | undefined, right: TimestampUs | undefined): TimestampUs | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return left > right ? left : right;
}

function above(timestampUs: TimestampUs | undefined, floorUs: TimestampUs | undefined): TimestampUs | undefined {
  if (timestampUs === undefined || floorUs === undefined) return timestampUs;
  return timestampUs > floorUs ? timestampUs : undefined;
}
