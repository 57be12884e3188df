/** Parts have numbers 1 to this. */
export const PART_NUMBER_MAX = 10_000;
/** Part rows read at a time. */
export const PART_PAGE = 1000;
/** Rows of parts that were not named, moved to garbage in one commit. */
export const UNNAMED_PER_COMMIT_MAX = 200;
