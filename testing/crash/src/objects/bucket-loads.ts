// Work on buckets that keep versions, that lock them and that expire objects; all of them announce their changes.
import { setTimeout as sleep } from "node:timers/promises";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketNotificationConfigurationCommand,
  PutBucketVersioningCommand,
  PutObjectLegalHoldCommand,
  PutObjectRetentionCommand,
  type LifecycleRule,
  type PutObjectCommandInput,
  type S3Client,
} from "@aws-sdk/client-s3";
import { unreachable } from "@concord/runtime";
import type { Tally } from "../subject.ts";
import { LoggedBucket } from "./bucket.ts";
import { PartUploads } from "./part-uploads.ts";
import type { VersionName } from "./version-ledger.ts";

const DAY_MS = 24 * 3_600_000;
/** Of a key; above it versions are removed more often than made. */
const VERSIONS_MAX = 10;
/** Locked versions stay to the end. */
const LOCKED_MAX = 120;
/** A rule removes them one after the other. */
const EXPIRING_EVERY_MS = 40;
/** Of the gateway: rules are carried out at once. */
export const LIFECYCLE_CONFIG = { lifecycleDayMs: 200, lifecycleIntervalMs: 200 };

export interface BucketLoadOptions {
  readonly s3: S3Client;
  readonly tally: Tally;
  /** ARN of the target of its events. */
  readonly target: string;
  readonly random: () => number;
}

export interface BucketLoad {
  readonly bucket: LoggedBucket;
  /** Each writes keys of its own. */
  readonly writers: number;
  prepare(): Promise<void>;
  change(writer: number): Promise<void>;
}

export function bucketLoads(options: BucketLoadOptions): readonly BucketLoad[] {
  return [versions(options), uploads(options), locks(options), expiries(options)];
}

/** Overwrites, deletes and removals by version. */
function versions(options: BucketLoadOptions): BucketLoad {
  const { s3, tally, random } = options;
  const bucket = new LoggedBucket("crash-versions", { s3, tally, fateOf: () => "kept" });
  return {
    bucket,
    writers: 6,
    prepare: () => makeVersioned(bucket.name, options),
    async change(writer) {
      const key = `versions/${writer}`;
      const kept = bucket.ledger.kept(key);
      const dice = random() * (kept.length > VERSIONS_MAX ? 2 : 1);
      if (dice > 0.7 && kept.length > 1) await bucket.remove(kept[Math.floor(random() * kept.length)]!);
      else if (dice > 0.6) await bucket.hide(key, "kept");
      else await bucket.put(key, "kept");
    },
  };
}

/** Versions that come in parts. */
function uploads(options: BucketLoadOptions): BucketLoad {
  const { s3, tally, random } = options;
  const bucket = new LoggedBucket("crash-uploads", { s3, tally, fateOf: () => "kept" });
  const writers = 4;
  const keys = Array.from({ length: writers }, (_, writer) => new PartUploads(bucket, s3, `uploads/${writer}`));
  return {
    bucket,
    writers,
    prepare: () => makeVersioned(bucket.name, options),
    async change(writer) {
      const uploading = keys[writer]!;
      const dice = random() * (bucket.ledger.kept(`uploads/${writer}`).length > VERSIONS_MAX ? 2 : 1);
      if (dice > 0.8) await uploading.remove();
      else if (dice > 0.6) await uploading.abort();
      else await uploading.complete();
    },
  };
}

const LOCKS = ["compliance", "governance", "hold"] as const;

interface Locked {
  readonly lock: (typeof LOCKS)[number];
  readonly name: VersionName;
}

/** Locked versions, which no delete, no rule and no shorter retention may remove; those behind them are due at once. */
function locks(options: BucketLoadOptions): BucketLoad {
  const { s3, tally, random } = options;
  const bucket = new LoggedBucket("crash-locked", { s3, tally, fateOf: () => "free" });
  const locked = new Map<number, Locked[]>();
  return {
    bucket,
    writers: 3,
    prepare: () => makeBucket(bucket.name, options, { rules: EARLIER_VERSIONS, hasLocks: true }),
    async change(writer) {
      const key = `locked/${writer}`;
      const own = locked.get(writer) ?? [];
      locked.set(writer, own);
      const dice = random();
      const one = own[Math.floor(random() * own.length)];
      if (dice < 0.3 && own.length < LOCKED_MAX / this.writers) {
        const lock = LOCKS[Math.floor(random() * LOCKS.length)]!;
        own.push({ lock, name: await bucket.put(key, "kept", lockOf(lock)) });
      } else if (dice < 0.5 || one === undefined) await bucket.put(key, "free");
      else if (dice < 0.6) await bucket.hide(key, "free");
      else if (dice < 0.9 || one.lock === "compliance") await violate(bucket, s3, one);
      else {
        own.splice(own.indexOf(one), 1);
        await release(bucket, s3, one);
      }
    },
  };
}

function lockOf(lock: Locked["lock"]): Partial<PutObjectCommandInput> {
  const ObjectLockRetainUntilDate = new Date(Date.now() + DAY_MS);
  switch (lock) {
    case "compliance":
      return { ObjectLockMode: "COMPLIANCE", ObjectLockRetainUntilDate };
    case "governance":
      return { ObjectLockMode: "GOVERNANCE", ObjectLockRetainUntilDate };
    case "hold":
      return { ObjectLockLegalHoldStatus: "ON" };
    default:
      return unreachable(lock);
  }
}

/** What must be refused. */
async function violate(bucket: LoggedBucket, s3: S3Client, { lock, name }: Locked): Promise<void> {
  const version = { Bucket: bucket.name, Key: name.key, VersionId: name.id };
  await bucket.forbidden(`the removal of a version with ${lock}`, () => s3.send(new DeleteObjectCommand(version)));
  if (lock !== "compliance") return;
  const Retention = { Mode: "COMPLIANCE", RetainUntilDate: new Date(Date.now() + DAY_MS / 2) } as const;
  await bucket.forbidden("a shorter compliance retention", () => s3.send(new PutObjectRetentionCommand({ ...version, Retention })));
}

/** From then on it may be gone: as a client says, or a rule does. */
async function release(bucket: LoggedBucket, s3: S3Client, { lock, name }: Locked): Promise<void> {
  if (lock === "governance") return bucket.remove(name, { BypassGovernanceRetention: true });
  bucket.ledger.freed(name);
  const version = { Bucket: bucket.name, Key: name.key, VersionId: name.id };
  await s3.send(new PutObjectLegalHoldCommand({ ...version, LegalHold: { Status: "OFF" } }));
}

/** Keys that are used once: those of the past go with the next pass, the others when their day is over. */
function expiries(options: BucketLoadOptions): BucketLoad {
  const { s3, tally } = options;
  const fateOf = (key: string): "expiring" | "free" => (key.startsWith("past/") ? "expiring" : "free");
  const bucket = new LoggedBucket("crash-expiring", { s3, tally, fateOf });
  let used = 0;
  return {
    bucket,
    writers: 2,
    prepare: () => makeBucket(bucket.name, options, { rules: EXPIRIES, hasLocks: false }),
    async change(writer) {
      used += 1;
      const key = `${writer === 0 ? "past" : "days"}/${used}`;
      await bucket.put(key, fateOf(key));
      await sleep(EXPIRING_EVERY_MS);
    },
  };
}

const EARLIER_VERSIONS: LifecycleRule[] = [
  { ID: "earlier", Status: "Enabled", Filter: { Prefix: "" }, NoncurrentVersionExpiration: { NoncurrentDays: 1 } },
];
const EXPIRIES: LifecycleRule[] = [
  { ID: "past", Status: "Enabled", Filter: { Prefix: "past/" }, Expiration: { Date: new Date("2020-01-01T00:00:00.000Z") } },
  { ID: "days", Status: "Enabled", Filter: { Prefix: "days/" }, Expiration: { Days: 1 } },
];

interface BucketSettings {
  readonly rules: LifecycleRule[];
  readonly hasLocks: boolean;
}

async function makeVersioned(Bucket: string, options: BucketLoadOptions): Promise<void> {
  await makeBucket(Bucket, options);
  await options.s3.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
}

async function makeBucket(Bucket: string, { s3, target }: BucketLoadOptions, settings?: BucketSettings): Promise<void> {
  await s3.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: settings?.hasLocks === true }));
  const Events = ["s3:ObjectCreated:*" as const, "s3:ObjectRemoved:*" as const, "s3:LifecycleExpiration:*" as const];
  const NotificationConfiguration = { QueueConfigurations: [{ QueueArn: target, Events }] };
  await s3.send(new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration }));
  if (settings === undefined) return;
  await s3.send(new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules: settings.rules } }));
}
