import type { SnapshotStore } from "@concord/dedup";
import { ConcordError } from "@concord/runtime";
import { refused, send, type S3ClientOptions } from "./s3-client.ts";

export interface S3SnapshotsOptions extends S3ClientOptions {
  /** Before each name, with its "/" at the end; of one partition alone. */
  readonly prefix: string;
}

const ERROR_BYTES_MAX = 64 * 1024;
const LIST_BYTES_MAX = 4 * 1024 * 1024;
/** Pages of 1000 names: more than the largest window's snapshots have. */
const LIST_PAGES_MAX = 64;

/** A folder of a bucket for the snapshots of one partition. Rejects with what the endpoint said; tries nothing again. */
export function s3Snapshots(options: S3SnapshotsOptions): SnapshotStore {
  const { prefix } = options;
  return {
    async get(name, bytesMax, signal) {
      const answer = await send(options, { method: "GET", key: prefix + name, bytesMax: Math.max(bytesMax, ERROR_BYTES_MAX) }, signal);
      if (answer.status === 404) return undefined;
      if (answer.status !== 200) throw refused(`reading ${name}`, answer);
      if (answer.body.length > bytesMax) throw new ConcordError("CORRUPT_DATA", `${name} has more than ${bytesMax} bytes`);
      return answer.body;
    },
    async put(name, bytes, signal) {
      const request = { method: "PUT", key: prefix + name, body: Uint8Array.from(bytes), bytesMax: ERROR_BYTES_MAX } as const;
      let answer = await send(options, request, signal);
      if (answer.status === 404) {
        const made = await send(options, { method: "PUT", bytesMax: ERROR_BYTES_MAX }, signal);
        if (made.status !== 200 && made.status !== 409) throw refused(`making the bucket ${options.bucket}`, made);
        answer = await send(options, request, signal);
      }
      if (answer.status !== 200) throw refused(`writing ${name}`, answer);
    },
    list: (signal) => listNames(options, signal),
    async remove(name, signal) {
      const answer = await send(options, { method: "DELETE", key: prefix + name, bytesMax: ERROR_BYTES_MAX }, signal);
      if (answer.status !== 204 && answer.status !== 404) throw refused(`removing ${name}`, answer);
    },
  };
}

async function listNames(options: S3SnapshotsOptions, signal: AbortSignal): Promise<readonly string[]> {
  const names: string[] = [];
  let after: string | undefined;
  for (let page = 0; page < LIST_PAGES_MAX; page += 1) {
    const more = after === undefined ? {} : { "start-after": after };
    const query = { "list-type": "2", prefix: options.prefix, ...more };
    const answer = await send(options, { method: "GET", query, bytesMax: LIST_BYTES_MAX }, signal);
    if (answer.status === 404) return names;
    if (answer.status !== 200) throw refused("listing snapshots", answer);
    const text = new TextDecoder().decode(answer.body);
    // Names have no character that XML or a key escapes, and no "/".
    const found = Array.from(text.matchAll(/<Key>[^<]*\/([^</]+)<\/Key>/g), ([, name]) => name!);
    names.push(...found);
    const last = found.at(-1);
    if (!text.includes("<IsTruncated>true</IsTruncated>") || last === undefined) return names;
    after = options.prefix + last;
  }
  throw new ConcordError("LIMIT_EXCEEDED", `more than ${LIST_PAGES_MAX} pages of snapshots below ${options.prefix}`);
}
