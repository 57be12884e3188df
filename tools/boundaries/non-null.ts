const COMMENTS = /^[ \t]*\/\/.*$|^[ \t]*\/\*[^]*?\*\/|[ \t]+\/\/ .*$/gm;
const STRINGS = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g;
/** The formatter puts `!` right behind what it asserts, and a space before `!==`. */
const NON_NULL = /[\w$)\]]!(?=[.,;:)\]}\s[(!]|$)/gm;

/** Non-null assertions of a source text (`value!`), and fields declared without a value (`field!: Type`). */
export function nonNullIn(source: string): number {
  return source.replaceAll(COMMENTS, "").replaceAll(STRINGS, '""').match(NON_NULL)?.length ?? 0;
}

/**
 * Maximum number of non-null assertions in the files of each project that are no tests; 0 where none is given. A number only goes down:
 * who removes assertions lowers it.
 */
export const NON_NULL_MAX: Readonly<Record<string, number>> = {
  "apps/concord": 7,
  "apps/dedup-worker": 17,
  "apps/object-gateway": 6,
  "apps/storage-proxy": 17,
  "apps/txn-coordinator": 10,
  "libs/adapter-cassandra": 20,
  "libs/adapter-embedded-log": 6,
  "libs/adapter-filesystem": 15,
  "libs/adapter-heartbeats": 5,
  "libs/adapter-http": 5,
  "libs/adapter-kafka": 18,
  "libs/adapter-key-value-metadata": 1,
  "libs/adapter-level": 3,
  "libs/adapter-node-runtime": 6,
  "libs/adapter-rados": 17,
  "libs/adapter-ring": 1,
  "libs/adapter-storage-proxy": 3,
  "libs/adapter-transaction-metadata": 2,
  "libs/checkers": 42,
  "libs/checksums": 3,
  "libs/client": 57,
  "libs/codec": 21,
  "libs/config": 3,
  "libs/dedup": 68,
  "libs/engine": 7,
  "libs/failure-detection": 21,
  "libs/group-log": 17,
  "libs/journal": 12,
  "libs/locks": 5,
  "libs/logged-batch": 9,
  "libs/member-lists": 3,
  "libs/objects": 68,
  "libs/ownership": 7,
  "libs/port-contracts": 44,
  "libs/quorum": 28,
  "libs/repair": 7,
  "libs/rows": 3,
  "libs/rows-wire": 4,
  "libs/rpc": 20,
  "libs/runtime": 10,
  "libs/s3": 48,
  "libs/schema": 28,
  "libs/simulation": 16,
  "libs/snowflake": 2,
  "libs/store": 49,
  "libs/telemetry": 6,
  "libs/transactions": 36,
  "libs/values": 10,
  protos: 3,
  "testing/bench": 50,
  "testing/clients": 20,
  "testing/constellation": 28,
  "testing/crash": 134,
  "testing/demo": 19,
  "testing/deploy": 3,
  "testing/samples": 13,
  "testing/simulate": 157,
  "tools/affected": 9,
  "tools/assertions": 5,
  "tools/boundaries": 9,
  "tools/claims": 17,
  "tools/engines": 25,
  "tools/fresh-clone": 3,
  "tools/nx": 11,
  "tools/pack": 11,
  "tools/protos": 34,
  "tools/references": 22,
  "tools/words": 1,
};
