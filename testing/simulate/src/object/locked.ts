// Versions with locks: whatever clients, lifecycle rules, other gateways, crashes and clocks do, a locked version is there until its time.
import { sleep, type Environment } from "@concord/runtime";
import type { World } from "@concord/simulation";
import { tagged, type S3Answer, type S3Request } from "./s3-client.ts";
import type { MadeVersion, VersionRead } from "./version-history.ts";

export const LOCKED_BUCKET = "locked-bucket";
/** Longer than clocks differ before they step, shorter than the largest step. */
const RETENTION_MS = 20_000;
/** Of what it may not become. */
const SHORTER_MS = 2_000;
/** The time of locks may run faster than true time by a tenth. */
const RATE_MAX = 1.1;
const PAUSE_MS_MAX = 80;
const SLOW_PAUSE_MS_MAX = 60;
/** Two chunks of the network, and a blob. */
const SLOW_BYTES = 40_000;
const LOOKS = 3;
const BYPASS = { "x-amz-bypass-governance-retention": "true" };
const HOLD = Buffer.from("<LegalHold><Status>ON</Status></LegalHold>");
/** Earlier versions are due at once. */
export const LOCKED_RULES =
  "<LifecycleConfiguration><Rule><ID>earlier</ID><Status>Enabled</Status><Filter/>" +
  "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>";
export const LOCKED_DEFAULT =
  "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>" +
  "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>";

export class LockHistory {
  readonly #world: World;
  /** Held for ever. */
  readonly #held: MadeVersion[] = [];
  /** How far clocks are off at most, steps aside. */
  readonly skewMs: number;
  /** When the bucket's default retention was answered. */
  defaultSinceMs: number | undefined;

  constructor(world: World, skewMs: number) {
    this.#world = world;
    this.skewMs = skewMs;
  }

  held(version: MadeVersion): void {
    this.#held.push(version);
  }

  /** When all is quiet. */
  async judge(read: VersionRead): Promise<void> {
    for (const version of this.#held) {
      const found = await read(version);
      if (found?.etag !== version.etag) this.#world.violation("lock", `${version.key}: held, and ${found?.etag ?? "gone"}`);
    }
    this.#world.count("object:locks-held", this.#held.length);
  }
}

export interface LockedOptions {
  readonly world: World;
  readonly env: Environment;
  readonly locks: LockHistory;
  /** No other client uses it, and it is used once. */
  readonly key: string;
  /** Undefined: it is not known what became of it. */
  readonly send: (request: S3Request) => Promise<S3Answer | undefined>;
}

export async function useLocked(options: LockedOptions): Promise<void> {
  const dice = options.env.random.below(100);
  if (dice < 40) await holdAndRemove(options);
  else if (dice < 75) await removeRetained(options);
  else await putByDefault(options);
}

/** A legal hold and a removal of the same version at once: one of them is refused. */
async function holdAndRemove(options: LockedOptions): Promise<void> {
  const { world, env, locks, key, send } = options;
  const version = await put(options, {});
  if (version === undefined) return;
  const at = { bucket: LOCKED_BUCKET, key };
  const later = async (request: S3Request): Promise<S3Answer | undefined> => {
    await sleep(env.clock, env.random.below(PAUSE_MS_MAX / 4));
    return await send(request);
  };
  const [held, removed] = await Promise.all([
    later({ ...at, method: "PUT", query: { "legal-hold": "", versionId: version.id }, body: HOLD }),
    later({ ...at, method: "DELETE", query: { versionId: version.id }, headers: BYPASS }),
  ]);
  world.count(`object:hold-${held?.status === 200 ? "first" : "late"}`, 1);
  if (held?.status !== 200) return;
  if (removed?.status === 204) world.violation("lock", `${key}: held and removed`);
  locks.held(version);
}

/** A retention that no wrong clock, rule or other request ends before its time. */
async function removeRetained(options: LockedOptions): Promise<void> {
  const { world, env, locks, key, send } = options;
  const mode = env.random.below(2) === 0 ? "COMPLIANCE" : "GOVERNANCE";
  const until = new Date(env.clock.nowMs() + RETENTION_MS).toISOString();
  const keptUntilMs = world.nowMs + (RETENTION_MS - 2 * locks.skewMs) / RATE_MAX;
  const isLater = env.random.below(2) === 0;
  const version = await put(options, isLater ? {} : { "x-amz-object-lock-mode": mode, "x-amz-object-lock-retain-until-date": until });
  if (version === undefined || (isLater && !(await retain(options, version, mode, until)))) return;
  if (env.random.below(2) === 0) await put(options, {});
  const at = { bucket: LOCKED_BUCKET, key, query: { versionId: version.id } };
  for (let look = 0; look < LOOKS; look += 1) {
    await sleep(env.clock, env.random.below(PAUSE_MS_MAX * 4));
    const bypass = mode === "COMPLIANCE" ? BYPASS : {};
    const shortened = await send({
      ...retaining(key, version),
      method: "PUT",
      body: retention("GOVERNANCE", new Date(env.clock.nowMs() + SHORTER_MS).toISOString()),
      headers: bypass,
    });
    if (shortened?.status === 200 && world.nowMs < keptUntilMs)
      world.violation("lock", `${key}: ${mode} mode until ${until} is shorter now`);
    const removed = await send({ ...at, method: "DELETE", headers: mode === "COMPLIANCE" ? BYPASS : {} });
    const found = await send({ ...at, method: "GET" });
    if (world.nowMs >= keptUntilMs) return;
    if (removed?.status === 204) world.violation("lock", `${key}: removed in ${mode} mode before ${until}`);
    if (found?.status === 404) world.violation("lock", `${key}: gone in ${mode} mode before ${until}`);
  }
  world.count("object:retained", 1);
}

/** Of a version that is there; false: it is not known to have it. A longer one, of the bucket's default, is refused. */
async function retain({ world, env, key, send }: LockedOptions, version: MadeVersion, mode: string, until: string): Promise<boolean> {
  const body = retention(mode, until);
  const set = await send({ ...retaining(key, version), method: "PUT", body });
  if (set?.status !== 200) return false;
  const shown = await send({ ...retaining(key, version), method: "GET" });
  await sleep(env.clock, env.random.below(PAUSE_MS_MAX));
  if (shown?.status === 200 && tagged(shown.body, "Mode")[0] !== mode)
    world.violation("lock", `${key}: retained in ${mode} mode, and shows another`);
  return true;
}

const retaining = (key: string, { id }: MadeVersion): Pick<S3Request, "bucket" | "key" | "query"> => ({
  bucket: LOCKED_BUCKET,
  key,
  query: { retention: "", versionId: id },
});

function retention(mode: string, until: string): Uint8Array {
  return Buffer.from(`<Retention><Mode>${mode}</Mode><RetainUntilDate>${until}</RetainUntilDate></Retention>`);
}

/** A slow put that ends after the bucket's default was answered gets it, whenever it began. */
export async function putByDefault(options: LockedOptions, pauseMsMax = SLOW_PAUSE_MS_MAX): Promise<void> {
  const { world, env, locks, key, send } = options;
  const pauseMs = env.random.below(pauseMsMax);
  const startedAtMs = world.nowMs;
  const version = await put(options, {}, { body: Buffer.alloc(SLOW_BYTES, key), pauseMs });
  // The last bytes were not sent before that.
  const isAfter = locks.defaultSinceMs !== undefined && locks.defaultSinceMs < startedAtMs + pauseMs;
  if (version === undefined || !isAfter) return;
  const found = await send({ method: "HEAD", bucket: LOCKED_BUCKET, key, query: { versionId: version.id } });
  if (found?.status !== 200) return;
  const mode = found.headers.get("x-amz-object-lock-mode");
  if (mode !== "GOVERNANCE") world.violation("lock", `${key}: put after the default retention was answered, and has none`);
  world.count(startedAtMs < (locks.defaultSinceMs ?? 0) ? "object:default-overtook" : "object:default-kept", 1);
}

/** The version that was stored, where the answer told. */
async function put(
  { key, send }: LockedOptions,
  headers: Readonly<Record<string, string>>,
  slow: Pick<S3Request, "body" | "pauseMs"> = {},
): Promise<MadeVersion | undefined> {
  const answer = await send({ method: "PUT", bucket: LOCKED_BUCKET, key, headers, body: Buffer.from(`of ${key}`), ...slow });
  const [id, etag] = [answer?.headers.get("x-amz-version-id"), answer?.headers.get("etag")];
  if (answer?.status !== 200 || id === undefined || etag === undefined) return undefined;
  return { key, id, etag: etag.replaceAll('"', "") };
}
