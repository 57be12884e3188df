import { readFileSync } from "node:fs";
import { join } from "node:path";
import { BEHIND, PHOTOS } from "./server.ts";
import { PROTOS } from "./toolchain.ts";

export const VECTORS_FILE = join(PROTOS, "test-vectors/token.json");

const { vectors } = JSON.parse(readFileSync(VECTORS_FILE, "utf8")) as {
  readonly vectors: readonly { readonly type: string; readonly value: string; readonly token: string }[];
};

/** What a client must have seen; `status` is UNAVAILABLE as its language writes it. */
export function expectedReport(status: string): object {
  return {
    health: "SERVING",
    tables: [
      {
        name: PHOTOS.name,
        kind: "TABLE_KIND_TRANSACTIONAL",
        columns: PHOTOS.columns.map(({ name, type }) => ({ name, type: `CELL_TYPE_${type.toUpperCase()}` })),
        partitionKey: PHOTOS.partitionKey,
      },
    ],
    failure: {
      status,
      message: BEHIND.message,
      reason: BEHIND.code,
      domain: "concord",
      metadata: { ...BEHIND.metadata, applied: BEHIND.applied },
      retryDelayMs: BEHIND.retryAfterMs,
    },
    tokens: Object.fromEntries(vectors.map(({ type, value, token }) => [`${type} ${value}`, token])),
  };
}
