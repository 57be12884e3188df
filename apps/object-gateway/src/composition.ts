import { nodeCipher } from "@concord/adapter-node-runtime";
import { tokensOf } from "@concord/config";
import { tokenAuthenticator } from "@concord/rpc";
import {
  addressOwner,
  lendingDisk,
  SpaceGuard,
  SpaceReserve,
  StopProgress,
  ConcordError,
  type Clock,
  type Environment,
  type Metrics,
  writeRefused,
  WRITES_TAKEN,
} from "@concord/runtime";
import { addressesWithin, createVerifier } from "@concord/s3";
import { objectAdmin } from "./admin.ts";
import type { ObjectGatewayConfig } from "./config.ts";
import { DedupWorkerSink, eventSinks, type EventSinks } from "./event-sinks.ts";
import { openGatewayStore, type GatewayStore } from "./gateway-store.ts";
import { ByteRates } from "./http/byte-rates.ts";
import { AccessReader } from "./http/access.ts";
import { TransferBudget } from "./http/budget.ts";
import type { Context } from "./http/context.ts";
import { s3Handler } from "./http/pipeline.ts";
import { DOWNLOAD_SHARE_BYTES, UPLOAD_SHARE_BYTES } from "./limits.ts";
import { onFailedOf, openMetadata } from "./metadata.ts";
import { openObjectData } from "./object-data.ts";
import type { ObjectAdmin } from "./rpc/object-admin.ts";
import { defineServices } from "./rpc/services.ts";
import { Quotas } from "./http/quotas.ts";
import { RequestRates } from "./http/request-rates.ts";
import { ObjectGatewayService, type OpenedGateway } from "./service.ts";
import { Users } from "./users.ts";
import type { ObjectGatewayOptions } from "./options.ts";

/** With metadata.ts and object-data.ts the only place that knows the adapters of an object-gateway. */
export function composeObjectGateway(config: ObjectGatewayConfig, options: ObjectGatewayOptions): ObjectGatewayService {
  const { environment } = options;
  const { clock, random, log, metrics, transport, failpoint, tracer, stopProgress = new StopProgress() } = environment;
  const { region, domain, websiteDomain, listenAddress: address, reflection, drainGraceMs } = config;
  const users = new Users({ config, readFile: options.readFile, clock, tasks: environment.tasks, log });
  const verifier = createVerifier({ region, credential: (accessKey) => users.credential(accessKey) });
  const authenticator = tokenAuthenticator(tokensOf(config));
  return new ObjectGatewayService({
    log,
    stopProgress,
    drainGraceMs,
    region,
    open: (httpAddress, signal) => openGateway(config, options, users, httpAddress, signal),
    services: (admin) => defineServices(environment, authenticator, () => adminOf(admin, options)),
    host: { transport, clock, log, metrics, authenticator, address, reflection, stopProgress },
    handler: (context) => s3Handler({ clock, random, log, metrics, failpoint, tracer, verifier, domain, websiteDomain, context }),
    serveHttp: (handler) => options.http.serve(config.httpAddress, handler),
  });
}

/** What operators ask of a gateway are mostly tasks that write. STORE_FAILED, applied no, when it serves reads only. */
function adminOf(admin: () => ObjectAdmin, { writes = WRITES_TAKEN }: ObjectGatewayOptions): ObjectAdmin {
  if (writes.kind === "taken") return admin();
  throw writeRefused(writes.reason);
}

async function openGateway(
  config: ObjectGatewayConfig,
  given: ObjectGatewayOptions,
  users: Users,
  httpAddress: () => string,
  signal: AbortSignal,
): Promise<OpenedGateway> {
  const { environment, writes = WRITES_TAKEN } = given;
  const { metrics, clock } = environment;
  if (writes.kind === "refused") beginReading(config, given, writes.reason);
  const { space, options } = spaceOf(config, given);
  users.open();
  await space.open();
  const closeSpace = (thrown: unknown): never => {
    space.close();
    users.close();
    throw thrown;
  };
  const opened = await openMetadata(config, options, signal).catch(closeSpace);
  const closeMetadata = async (thrown: unknown): Promise<never> => {
    await opened.close();
    return closeSpace(thrown);
  };
  const data = await openObjectData(config, options, signal).catch(closeMetadata);
  const onFailed = onFailedOf(options);
  const { metadata } = opened;
  const tuning = options.tuning ?? {};
  const { peers } = options;
  const sinks = sinksOf(config, options);
  const storeOptions = {
    config,
    environment,
    cipher: nodeCipher,
    metadata,
    data,
    disk: options.disk,
    tuning,
    onFailed,
    signal,
    sinks,
    ...(peers === undefined ? {} : { peers }),
  };
  const gateway = await openGatewayStore(storeOptions).catch((thrown: unknown) => data.close().then(() => closeMetadata(thrown)));
  const budgets = budgetsOf(config, metrics);
  return {
    context: {
      ...settingsOf(config, users),
      ...limitsOf(users, gateway.store, clock),
      ...budgets,
      ...byteRatesOf(config, users, environment),
      store: gateway.store,
      log: environment.log,
      metrics,
      space,
      writes,
      eventSink: sinks.sink,
      digestThread: options.digestThread,
    },
    admin: objectAdmin({ config, gateway, uploads: budgets.uploads, httpAddress }),
    startBackground: () => {
      if (writes.kind === "taken") gateway.startBackground();
    },
    close: () => {
      space.close();
      users.close();
      opened.refuseWaiting?.();
      return closeInOrder(() => gateway.stop(), sinks, data, opened);
    },
  };
}

/** STORE_FAILED: rows or data that others write, too, are not for a gateway that keeps what it writes to itself; the others serve them. */
function beginReading({ metadata, objects, dataFolder }: ObjectGatewayConfig, options: ObjectGatewayOptions, reason: string): void {
  const { log, metrics } = options.environment;
  if (metadata !== "local" || objects !== "filesystem" || options.dataDisk !== undefined) {
    const what = `${reason}: a gateway of shared rows or data needs ${dataFolder} for its journal; mount it for writing, the other gateways serve meanwhile`;
    throw new ConcordError("STORE_FAILED", what, { applied: "no" });
  }
  metrics.gauge("objects_read_only", 1);
  log.error("only reads are served: mount its data folder for writing and start it again", { reason });
}

/** What operations ask of the configuration. */
function settingsOf(
  config: ObjectGatewayConfig,
  users: Users,
): Pick<Context, "region" | "partBytesMax" | "scheme" | "access" | "lifecycleDayMs" | "keys"> {
  const { region, partBytesMax, lifecycleDayMs, encryptionKeys, kmsKeys } = config;
  const scheme = config.tlsCertificateFile === undefined ? "http" : "https";
  const keys = { managed: encryptionKeys.length > 0 ? "configured" : "none", service: kmsKeys.map(({ id }) => id) } as const;
  return { region, partBytesMax, scheme, access: accessReader(config, users, scheme), lifecycleDayMs, keys };
}

/** In one program the transport is the process's: a worker in it is called directly. */
function sinksOf(config: ObjectGatewayConfig, { environment, openSink }: ObjectGatewayOptions): EventSinks {
  const { clock, random, transport } = environment;
  const { dedupWorkerToken: token } = config;
  return eventSinks(config, openSink ?? ((addresses) => new DedupWorkerSink({ addresses, token, clock, random, transport })));
}

/** What depends on others first. */
async function closeInOrder(stop: () => Promise<unknown>, ...open: readonly { close(): unknown }[]): Promise<void> {
  await stop();
  for (const one of open) await one.close();
}

/** The guard, and options whose disk gets space for its writes from the reserve that the guard keeps. */
function spaceOf(
  { lowSpaceBytes: lowBytes, reserveBytes }: ObjectGatewayConfig,
  options: ObjectGatewayOptions,
): { readonly space: SpaceGuard; readonly options: ObjectGatewayOptions } {
  const { environment, disk, dataDisk, writes = WRITES_TAKEN } = options;
  if (writes.kind === "refused") return { space: new SpaceGuard({ ...environment, service: "objects", disks: [], lowBytes: 0 }), options };
  const disks = dataDisk === undefined ? [disk] : [disk, dataDisk];
  const reserve = new SpaceReserve(disk, reserveBytes);
  return {
    space: new SpaceGuard({ ...environment, service: "objects", disks, lowBytes, reserve }),
    options: { ...options, disk: lendingDisk({ disk, reserve, log: environment.log }) },
  };
}

function accessReader({ publicAccess, trustedProxies }: ObjectGatewayConfig, users: Users, scheme: "http" | "https"): AccessReader {
  return new AccessReader({
    publicAccess: publicAccess ? "possible" : "refused",
    isProxy: addressesWithin(trustedProxies),
    scheme,
    isTenant: (name) => users.isTenant(name),
  });
}

function limitsOf(users: Users, store: GatewayStore["store"], clock: Clock): { readonly quotas: Quotas; readonly rates: RequestRates } {
  const monotonicMs = (): number => clock.monotonicMs();
  return {
    quotas: new Quotas({ quotaOf: (tenant) => users.limitsOf(tenant), store, monotonicMs }),
    rates: new RequestRates({ rateOf: (tenant) => users.limitsOf(tenant)?.requestsPerSecondMax, monotonicMs }),
  };
}

/** Every address has the same rate. */
function byteRatesOf(config: ObjectGatewayConfig, users: Users, { clock, metrics }: Environment): Pick<Context, "receiving" | "sending"> {
  const shared = { networkOf: addressOwner, clock, metrics };
  const { tenantUploadBytesPerSecond: up, tenantDownloadBytesPerSecond: down } = config;
  return {
    receiving: new ByteRates({
      ...shared,
      direction: "up",
      tenants: (tenant) => users.limitsOf(tenant)?.uploadBytesPerSecondMax ?? up,
      addressRate: config.addressUploadBytesPerSecond,
    }),
    sending: new ByteRates({
      ...shared,
      direction: "down",
      tenants: (tenant) => users.limitsOf(tenant)?.downloadBytesPerSecondMax ?? down,
      addressRate: config.addressDownloadBytesPerSecond,
    }),
  };
}

function budgetsOf(
  config: ObjectGatewayConfig,
  metrics: Metrics,
): { readonly uploads: TransferBudget; readonly downloads: TransferBudget } {
  // A file of users may have more tenants at any time.
  const isShared = config.usersFile !== undefined || new Set(config.accessKeys.map(({ tenant }) => tenant)).size > 1;
  const uploads = { kind: "uploads", countMax: config.uploadsInFlightMax, bytesMax: config.uploadBufferBytes } as const;
  // Connections bound the count of downloads.
  const downloads = { kind: "downloads", countMax: Number.MAX_SAFE_INTEGER, bytesMax: config.downloadBufferBytes } as const;
  return {
    uploads: new TransferBudget({ ...uploads, shareBytes: UPLOAD_SHARE_BYTES, isShared, metrics }),
    downloads: new TransferBudget({ ...downloads, shareBytes: DOWNLOAD_SHARE_BYTES, isShared, metrics }),
  };
}
