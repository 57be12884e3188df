/** Style rule 5: at least so many assertions per function in code of protocols. */
export const ASSERTIONS_PER_FUNCTION_MIN = 0.5;
/** The libs whose procedures decide what is kept. */
export const PROTOCOL_LIBS = ["dedup", "group-log", "logged-batch", "objects", "quorum", "transactions"] as const;
/** Those that have as many assertions as they should: the test refuses to lose them again. */
export const ASSERTED_LIBS: readonly (typeof PROTOCOL_LIBS)[number][] = [
  "dedup",
  "group-log",
  "logged-batch",
  "objects",
  "quorum",
  "transactions",
];
