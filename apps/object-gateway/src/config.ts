import { checkServer, diskShape, secret, serverShape, z } from "@concord/config";
import { OBJECT_LIMITS } from "@concord/objects";
import { subnetOf } from "@concord/s3";
import {
  ACCESS_KEYS_MAX,
  ENCRYPTION_KEYS_MAX,
  EVENT_TARGETS_MAX,
  EVENT_WORKERS_MAX,
  OBJECT_BYTES_MAX,
  PACK_BYTES_MAX,
  PART_BYTES_MAX,
  RATE_STEP_BYTES,
  TRUSTED_PROXIES_MAX,
  DOWNLOAD_BUFFER_BYTES_DEFAULT,
  UPLOADS_IN_FLIGHT_DEFAULT,
  UPLOAD_BUFFER_BYTES_DEFAULT,
} from "./limits.ts";

const address = z.string().regex(/^.+:\d+$/, "expected host:port");

const accessKey = z.strictObject({
  accessKeyId: z.string().regex(/^[A-Za-z0-9_-]{3,128}$/, "expected 3 to 128 letters, digits, - or _"),
  secretAccessKey: secret(z.string().min(8, "a secret has at least 8 characters").max(256)),
  tenant: z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected 1 to 64 letters, digits, -, _ or ."),
});

const eventTarget = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected 1 to 64 letters, digits, -, _ or ."),
  tenant: z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected 1 to 64 letters, digits, -, _ or ."),
  workers: z.array(address).max(EVENT_WORKERS_MAX).default([]),
});

const byteRate = z.number().int().min(RATE_STEP_BYTES);

const tenantLimits = z.strictObject({
  tenant: accessKey.shape.tenant,
  bytesMax: z.number().int().min(0).optional(),
  objectsMax: z.number().int().min(0).optional(),
  requestsPerSecondMax: z.number().int().min(1).optional(),
  uploadBytesPerSecondMax: byteRate.optional(),
  downloadBytesPerSecondMax: byteRate.optional(),
});

export type TenantLimits = z.output<typeof tenantLimits>;

const isUnique = (texts: readonly string[]): boolean => new Set(texts).size === texts.length;

/** What is in `usersFile`. */
export const usersSchema = z.strictObject({
  accessKeys: z
    .array(accessKey)
    .max(ACCESS_KEYS_MAX)
    .default([])
    .refine((keys) => isUnique(keys.map(({ accessKeyId }) => accessKeyId)), "two have the same accessKeyId"),
  tenantLimits: z
    .array(tenantLimits)
    .max(ACCESS_KEYS_MAX)
    .default([])
    .refine((all) => isUnique(all.map(({ tenant }) => tenant)), "two are about the same tenant"),
});

export type UsersConfig = z.output<typeof usersSchema>;

const encryptionKey = z.strictObject({
  id: z.string().regex(/^[A-Za-z0-9_.:/-]{1,256}$/, "expected 1 to 256 letters, digits, -, _, ., : or /"),
  key: secret(z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "expected 32 bytes in base64, as of openssl rand -base64 32")),
});

const encryptionKeys = (text: string) => z.array(encryptionKey).max(ENCRYPTION_KEYS_MAX).default([]).describe(text);

const count = (text: string, standard: number, max = Number.MAX_SAFE_INTEGER): z.ZodDefault<z.ZodNumber> =>
  z.number().int().min(1).max(max).default(standard).describe(text);

const NO_KEYS =
  'no client could sign a request; give at least one key: [{"accessKeyId": "...", "secretAccessKey": "...", "tenant": "..."}] ' +
  "as --access-keys, CONCORD_ACCESS_KEYS or in the file";

/** Every key of an object-gateway. */
export const objectGatewaySchema = z
  .strictObject({
    ...serverShape,
    ...diskShape,
    nodeName: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected 1 to 64 letters, digits, -, _ or .")
      .default("object-gateway")
      .describe("this gateway's name; those who share data have different ones"),
    httpAddress: address.default("127.0.0.1:0").describe("address of the S3 endpoint; port 0 takes a free one"),
    dataFolder: z.string().min(1).default("./.concord/object-gateway").describe("folder of the journal and of local metadata"),
    dataStoreFolder: z
      .string()
      .min(1)
      .optional()
      .describe("folder of the objects' data, shared by several gateways; default in dataFolder"),
    objects: z
      .enum(["filesystem", "rados"])
      .default("filesystem")
      .describe("where the objects' data is: in files of dataStoreFolder, or in a pool of a Ceph cluster"),
    cephConf: z.string().min(1).default("/etc/ceph/ceph.conf").describe("for objects rados: file with the cluster's monitors and keyring"),
    cephUser: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected the name behind client.")
      .default("concord")
      .describe("for objects rados: the Ceph user, without client."),
    cephPool: z.string().min(1).max(128).default("concord").describe("for objects rados: the pool; it must exist"),
    cephNamespace: z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,64}$/, "expected 1 to 64 letters, digits, -, _ or .")
      .default("objects")
      .describe("for objects rados: namespace in the pool, the same for gateways that share buckets"),
    journal: z
      .enum(["reservation", "per-transaction", "per-transaction-basic", "off"])
      .default("reservation")
      .describe("how a crash is kept from leaking data; off: it leaks"),
    metadata: z
      .enum(["local", "transactions", "storage"])
      .default("local")
      .describe(
        "where rows are: in dataFolder (one gateway), in transactions of txn-coordinators (several), or in the engine of storage-proxies itself (several; their backend must be cassandra)",
      ),
    coordinators: z
      .array(address)
      .default([])
      .describe("addresses of txn-coordinators, for metadata transactions; one that answers is enough"),
    storageProxies: z
      .array(address)
      .default([])
      .describe("addresses of storage-proxies, for metadata storage; they are called with coordinatorToken"),
    transactionToken: secret(z.string().min(1)).optional().describe("this gateway's bearer token at the txn-coordinators"),
    shards: count("partitions of a bucket made from now on", 1, 64),
    accessKeys: z.array(accessKey).max(ACCESS_KEYS_MAX).default([]).describe("who may come in: key id, secret, tenant"),
    tenantLimits: z
      .array(tenantLimits)
      .max(ACCESS_KEYS_MAX)
      .default([])
      .describe(
        "how much tenants may use: tenant, and any of bytesMax, objectsMax, requestsPerSecondMax, uploadBytesPerSecondMax, downloadBytesPerSecondMax; others as much as there is",
      ),
    tenantUploadBytesPerSecond: byteRate
      .optional()
      .describe("how fast each tenant may upload that has no uploadBytesPerSecondMax in tenantLimits, at each gateway; at least 65536"),
    tenantDownloadBytesPerSecond: byteRate.optional().describe("the same of downloads"),
    addressUploadBytesPerSecond: byteRate
      .optional()
      .describe("how fast each address (of IPv6: each /64 network) may upload, at each gateway; at least 65536"),
    addressDownloadBytesPerSecond: byteRate.optional().describe("the same of downloads"),
    usersFile: z
      .string()
      .min(1)
      .optional()
      .describe("file with more accessKeys and tenantLimits as JSON, read again every 30 s: keys are changed there without a restart"),
    encryptionKeys: encryptionKeys(
      "master keys for SSE-S3: id, and 32 bytes in base64. The first encrypts; those behind it are only read with, until nothing needs them. The same for gateways that share buckets",
    ),
    kmsKeys: encryptionKeys(
      "keys for SSE-KMS by the ids that clients name; the first is used when none is named. Of several with one id the first encrypts. The same for gateways that share buckets",
    ),
    region: z
      .string()
      .regex(/^[a-z0-9-]{1,32}$/, "expected 1 to 32 lower-case letters, digits or -")
      .default("us-east-1")
      .describe("the region that requests are signed for"),
    domain: z
      .string()
      .regex(/^[a-z0-9.-]{1,200}$/, "expected a domain name in lower case")
      .optional()
      .describe("buckets are also served as <bucket>.<domain>; path style always is"),
    websiteDomain: z
      .string()
      .regex(/^[a-z0-9.-]{1,200}$/, "expected a domain name in lower case")
      .optional()
      .describe("buckets with a website are shown to browsers as <bucket>.<websiteDomain>, as far as everyone may get their objects"),
    publicAccess: z
      .boolean()
      .default(true)
      .describe("false: anonymous requests and public policies are refused, whatever owners of buckets allow"),
    trustedProxies: z
      .array(z.string().refine((text) => subnetOf(text) !== undefined, "expected an address or a range such as 10.0.0.0/8"))
      .max(TRUSTED_PROXIES_MAX)
      .default([])
      .describe("addresses of proxies before the S3 endpoint: only their X-Forwarded-For and X-Forwarded-Proto are believed"),
    gcGraceMs: count("how long replaced data is kept for those who still read it", 3_600_000),
    collectIntervalMs: count("pause between collections of garbage", 60_000),
    scrubIntervalMs: count("pause between scrubs, which compare all rows and blobs and verify every byte", 86_400_000),
    scrubBytesPerSecond: count("how fast a scrub reads", 4_194_304),
    lifecycleIntervalMs: count("pause between passes that carry out lifecycle rules", 3_600_000),
    lifecycleRowsPerSecond: count("how fast such a pass looks at rows; a removal counts as ten", 2000),
    lifecycleDayMs: count("length of a day of lifecycle rules: shorter in tests only", 86_400_000),
    eventTargets: z
      .array(eventTarget)
      .max(EVENT_TARGETS_MAX)
      .default([])
      .describe(
        "where events of buckets may go: name, tenant, addresses of dedup-workers of one log. A rule names it as arn:aws:sqs:REGION:TENANT:NAME",
      ),
    dedupWorkerToken: secret(z.string().min(1)).optional().describe("this gateway's bearer token at the dedup-workers of eventTargets"),
    eventsMaxAgeMs: count("events older than this are overdue; below the time for which dedup-workers remember ids", 604_800_000),
    eventsOverdue: z
      .enum(["keep", "send", "drop"])
      .default("keep")
      .describe("what becomes of overdue events: they stay (and are reported), are sent although they may come out twice, or are dropped"),
    eventsPerSecond: count("how fast events are delivered", 2000),
    eventBytesMax: count("events of one bucket that wait; above it writes that make one get SlowDown", 67_108_864),
    eventBytesTotalMax: count("the same of all buckets", 1_073_741_824),
    longestRequestMs: count("a request, downloads included, is ended after so long; at most gcGraceMs", 3_600_000),
    checkpointIntervalMs: count("pause between checkpoints of the journal", 600_000),
    objectBytesMax: count("largest object", OBJECT_BYTES_MAX, OBJECT_BYTES_MAX),
    partBytesMax: count("largest single upload and largest part", PART_BYTES_MAX, PART_BYTES_MAX),
    uploadsInFlightMax: count(
      "uploads at the same time; more are refused with SlowDown. Of several tenants none can use them up",
      UPLOADS_IN_FLIGHT_DEFAULT,
      100_000,
    ),
    packBytesMax: z
      .number()
      .int()
      .min(0)
      .max(PACK_BYTES_MAX)
      .default(PACK_BYTES_MAX)
      .describe("objects' data up to this length is packed into segment files; 0: each blob is a file of its own"),
    headBytesMax: z
      .number()
      .int()
      .min(0)
      .max(OBJECT_LIMITS.inlineBytesMax)
      .default(OBJECT_LIMITS.headBytesMax)
      .describe("objects up to this length are in the row that listings read, larger ones that are in rows beside it"),
    uploadBufferBytes: count("memory for bodies of uploads on their way", UPLOAD_BUFFER_BYTES_DEFAULT),
    downloadBufferBytes: count(
      "memory for bodies of downloads on their way, up to 2 MiB each; more downloads are refused with SlowDown",
      DOWNLOAD_BUFFER_BYTES_DEFAULT,
    ),
  })
  .superRefine(checkServer)
  .superRefine((config, context) => {
    const refuse = (key: string, message: string): void => context.addIssue({ code: "custom", path: [key], message });
    const ids = config.accessKeys.map((key) => key.accessKeyId);
    if (ids.length === 0 && config.usersFile === undefined) refuse("accessKeys", NO_KEYS);
    if (!isUnique(ids)) refuse("accessKeys", "two have the same accessKeyId");
    if (!isUnique(config.tenantLimits.map(({ tenant }) => tenant))) refuse("tenantLimits", "two are about the same tenant");
    if (config.websiteDomain !== undefined && config.websiteDomain === config.domain)
      refuse("websiteDomain", "is the domain of buckets: a request there is signed, a visitor's is not");
    for (const name of ["encryptionKeys", "kmsKeys"] as const) {
      const keys = config[name].map(({ key }) => key);
      if (new Set(keys).size !== keys.length) refuse(name, "two are the same key");
    }
    if (config.longestRequestMs > config.gcGraceMs)
      refuse("longestRequestMs", `is more than gcGraceMs, ${config.gcGraceMs}: readers would be cut off`);
    const targets = config.eventTargets.map(({ tenant, name }) => `${tenant} ${name}`);
    if (new Set(targets).size !== targets.length) refuse("eventTargets", "two of one tenant have the same name");
    if (config.eventTargets.some(({ workers }) => workers.length === 0)) refuse("eventTargets", "each needs addresses of dedup-workers");
    if (config.metadata === "transactions" && config.coordinators.length === 0)
      refuse("coordinators", "metadata transactions needs at least one");
    if (config.metadata === "storage" && config.storageProxies.length === 0)
      refuse("storageProxies", "metadata storage needs at least one");
  });

export type ObjectGatewayConfig = z.output<typeof objectGatewaySchema>;
