import { createHash } from "node:crypto";
import type { ObjectStore } from "@concord/objects";
import { ConcordError, toConcordError } from "@concord/runtime";

/** A folder of a bucket for another part of the same process: by direct calls, without S3 and its keys. Names have no "/". */
export interface BucketFolder {
  /** Undefined: there is none. LIMIT_EXCEEDED: it has more than `bytesMax`. */
  get(name: string, bytesMax: number): Promise<Uint8Array | undefined>;
  /** Durable and visible when it resolves; makes the bucket when there is none. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  list(): Promise<readonly string[]>;
  remove(name: string): Promise<void>;
}

/** Owns the buckets that parts of the process make: no access key has this tenant's name unless an operator gives it to one. */
export const INTERNAL_TENANT = "concord-internal";
const LIST_PAGE = 1_000;
const NOTHING = { headers: {}, metadata: {}, tags: {} } as const;

/** `prefix` ends with "/". While the gateway does not serve every call rejects with STARTING or DRAINING. */
export function bucketFolder(store: () => ObjectStore, region: string, bucket: string, prefix: string): BucketFolder {
  const put = async (name: string, bytes: Uint8Array): Promise<void> => {
    const request = { bucket, key: prefix + name, attributes: NOTHING, precondition: {} };
    await store().putObject({ ...request, body: bodyOf(bytes) });
  };
  return {
    get: (name, bytesMax) => ifThere(undefined, () => readObject(store(), bucket, prefix + name, bytesMax)),
    async put(name, bytes) {
      const info = await ifThere(undefined, () => store().headBucket(bucket));
      if (info === undefined) await store().createBucket({ bucket, tenant: INTERNAL_TENANT, region });
      else if (info.tenant !== INTERNAL_TENANT)
        throw new ConcordError("PERMISSION_DENIED", `bucket ${bucket} belongs to ${info.tenant}: name another one`);
      await put(name, bytes);
    },
    list: () => ifThere([], () => listNames(store(), bucket, prefix)),
    remove: async (name) => void (await ifThere(undefined, () => store().deleteObject({ bucket, key: prefix + name }))),
  };
}

async function ifThere<Answer>(otherwise: Answer, ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (thrown) {
    const { code } = toConcordError(thrown);
    if (code === "OBJECT_UNKNOWN" || code === "BUCKET_UNKNOWN") return otherwise;
    throw thrown;
  }
}

async function readObject(store: ObjectStore, bucket: string, key: string, bytesMax: number): Promise<Uint8Array> {
  const { lengthBytes, bytes } = await store.getObject({ bucket, key, range: undefined, precondition: {}, part: undefined });
  if (lengthBytes > bytesMax) throw new ConcordError("LIMIT_EXCEEDED", `${key} has ${lengthBytes} bytes, more than ${bytesMax}`);
  const whole = new Uint8Array(lengthBytes);
  let at = 0;
  for await (const part of bytes) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

async function listNames(store: ObjectStore, bucket: string, prefix: string): Promise<readonly string[]> {
  const names: string[] = [];
  let after: string | undefined;
  do {
    const page = await store.listObjects({ bucket, prefix, delimiter: undefined, after, limit: LIST_PAGE });
    names.push(...page.objects.map(({ key }) => key.slice(prefix.length)));
    after = page.next;
  } while (after !== undefined);
  return names;
}

function bodyOf(bytes: Uint8Array): Parameters<ObjectStore["putObject"]>[0]["body"] {
  return {
    lengthBytes: bytes.length,
    chunks: (async function* () {
      if (bytes.length > 0) yield bytes;
    })(),
    finish: () => ({ md5Hex: createHash("md5").update(bytes).digest("hex"), checksum: undefined }),
  };
}
