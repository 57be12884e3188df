/** Every limit of this lib. Above it: SCHEMA_INVALID for definitions, LIMIT_EXCEEDED for statements and values. */
export const SCHEMA_LIMITS = {
  nameLengthMax: 48,
  columnsMax: 128,
  /** Partition and clustering columns together. */
  keyColumnsMax: 16,
  indexesMax: 16,
  indexColumnsMax: 8,
  /** Encoded bytes of one value in a partition, clustering or index key. */
  keyValueBytesMax: 1024,
  cellValueBytesMax: 1024 * 1024,
  /** Bytes of all values of one row write. */
  rowWriteBytesMax: 4 * 1024 * 1024,
  /** Rows per page of a range read. */
  pageRowsMax: 1000,
  keysPerReadMax: 1000,
  queryLimitMax: 1_000_000,
  statementLengthMax: 64 * 1024,
  bindsMax: 4096,
  batchStatementsMax: 1000,
  /** Conditions in one WHERE. */
  constraintsMax: 32,
  groupsMax: 4096,
} as const;

/** Tables of ours start with this; users can neither create nor write them. */
export const SYSTEM_TABLE_PREFIX = "concord_";
