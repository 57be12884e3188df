// Keys with lifecycle rules: what no rule is for stays, whatever a pass judged a moment before, and what a delete marker hides stays hidden.
import { sleep, type Environment } from "@concord/runtime";
import type { World } from "@concord/simulation";
import type { S3Answer, S3Request } from "./s3-client.ts";

export const EXPIRING_PREFIX = "expiring/";
/** A pass judges, waits for its rate, and removes meanwhile. */
const PAUSE_MS_MAX = 120;
const LOOKS = 3;

/** Days are a millisecond: what is old is due at once. */
export const EXPIRING_CONFIG = { lifecycleDayMs: 1, lifecycleIntervalMs: 40, lifecycleRowsPerSecond: 150 };
export const EXPIRING_RULES =
  `<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status><Filter><And><Prefix>${EXPIRING_PREFIX}</Prefix>` +
  "<Tag><Key>is</Key><Value>old</Value></Tag></And></Filter><Expiration><Days>1</Days></Expiration></Rule>" +
  `<Rule><ID>markers</ID><Status>Enabled</Status><Filter><Prefix>${EXPIRING_PREFIX}</Prefix></Filter>` +
  "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule></LifecycleConfiguration>";

export interface ExpiringOptions {
  readonly world: World;
  readonly env: Environment;
  /** No other client uses it, and it is used once. */
  readonly key: string;
  /** Undefined: it is not known what became of it. */
  readonly send: (request: S3Request) => Promise<S3Answer | undefined>;
  readonly bucket: string;
}

/** An old object, then one that no rule is for in its place, or its delete. What had no answer says nothing, and may still come: the key is left. */
export async function useExpiring({ world, env, key, bucket, send }: ExpiringOptions): Promise<void> {
  const put = async (headers: Readonly<Record<string, string>>): Promise<boolean> =>
    (await send({ method: "PUT", bucket, key, headers, body: Buffer.from("small") }))?.status === 200;
  const isDeleted = env.random.below(2) === 0;
  if (!(await put(isDeleted ? {} : { "x-amz-tagging": "is=old" }))) return;
  await sleep(env.clock, env.random.below(PAUSE_MS_MAX));
  const isDone = isDeleted ? (await send({ method: "DELETE", bucket, key }))?.status === 204 : await put({});
  if (!isDone) return;
  const expected = isDeleted ? 404 : 200;
  for (let look = 0; look < LOOKS; look += 1) {
    await sleep(env.clock, env.random.below(PAUSE_MS_MAX));
    const status = (await send({ method: "GET", bucket, key }))?.status;
    if (status !== undefined && status < 500 && status !== expected)
      world.violation("lifecycle", `${key}: ${status} after ${isDeleted ? "its delete" : "a put that no rule is for"}`);
  }
  world.count(isDeleted ? "object:deleted-stays" : "object:kept-by-rules", 1);
}
