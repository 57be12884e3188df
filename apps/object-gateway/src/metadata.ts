// Opens the store of rows: this gateway's own, transactions of txn-coordinators or the engine of storage-proxies, both shared by several
// gateways, or a test's store.
import { join } from "node:path";
import { KeyValueMetadata } from "@concord/adapter-key-value-metadata";
import { openLevel, openLevelCopy, reportFiltersTo } from "@concord/adapter-level";
import { nodeDescriptors } from "@concord/adapter-node-runtime";
import { ProxyChannels, StorageProxyMetadata } from "@concord/adapter-storage-proxy";
import { TransactionMetadata } from "@concord/adapter-transaction-metadata";
import { ConcordClientError, connectThrough, type ConcordClient } from "@concord/client";
import { Engine } from "@concord/engine";
import type { ObjectMetadata, Store } from "@concord/ports";
import { ConcordError, ERRORS, StartWaits, unreachable } from "@concord/runtime";
import { openStore } from "@concord/store";
import type { ObjectGatewayOptions } from "./options.ts";
import type { ObjectGatewayConfig } from "./config.ts";

const ROWS_FOLDER = "metadata";
/** A row that is never written. */
const NO_ROW = Uint8Array.of(0);

export interface OpenMetadata {
  readonly metadata: ObjectMetadata;
  /** It is going to be closed: commits that wait for space on the disk are refused. Undefined: none wait here. */
  readonly refuseWaiting?: () => void;
  /** After the last commit. Never rejects. */
  close(): Promise<void>;
}

/** Waits for txn-coordinators or storage-proxies that do not answer yet, until `signal` is aborted. */
export async function openMetadata(config: ObjectGatewayConfig, options: ObjectGatewayOptions, signal: AbortSignal): Promise<OpenMetadata> {
  if (options.metadata !== undefined) return { metadata: options.metadata, close: () => Promise.resolve() };
  switch (config.metadata) {
    case "local":
      return openLocal(config, options);
    case "transactions":
      return openTransactions(config, options, signal);
    case "storage":
      return openStorage(config, options, signal);
    default:
      return unreachable(config.metadata);
  }
}

export function onFailedOf({ onFailed }: ObjectGatewayOptions): (cause: ConcordError) => void {
  return onFailed ?? ((cause) => void Promise.reject(cause));
}

async function openLocal(config: ObjectGatewayConfig, options: ObjectGatewayOptions): Promise<OpenMetadata> {
  const { clock, metrics, checksum, log } = options.environment;
  const store = await (options.openKeyValue?.(config.nodeName) ?? openOwnStore(config, options));
  let isClosed = false;
  const onFailed = onFailedOf(options);
  const engine = new Engine({ store, clock, metrics, onFailed: (cause) => isClosed || onFailed(cause) });
  return {
    metadata: new KeyValueMetadata({ store: engine, checksum, log }),
    refuseWaiting: () => store.refuseWaiting?.(),
    close: async () => {
      await engine.whenIdle();
      // A request that was cut off may still write what it leaves: refused, and no failure of the store.
      isClosed = true;
      await store.close().catch(() => log.warn("the store did not close well"));
    },
  };
}

/** Opening the backing store takes the lock of the rows. */
async function openOwnStore(config: ObjectGatewayConfig, options: ObjectGatewayOptions): Promise<Store> {
  const { environment, disk, writes } = options;
  const open = writes?.kind === "refused" ? openLevelCopy : openLevel;
  const backing = await open(join(config.dataFolder, ROWS_FOLDER), nodeDescriptors(), reportFiltersTo(environment.log));
  return openStore({ ...environment, disk, folder: ROWS_FOLDER, backing, onFailed: onFailedOf(options) });
}

/** Journal and blobs have no lock of their own: that of an empty store, where local rows would be, is theirs. */
async function lockFolder(config: ObjectGatewayConfig, { openKeyValue }: ObjectGatewayOptions): Promise<{ close(): Promise<void> }> {
  return openKeyValue === undefined
    ? openLevel(join(config.dataFolder, ROWS_FOLDER), nodeDescriptors())
    : { close: () => Promise.resolve() };
}

async function openTransactions(config: ObjectGatewayConfig, options: ObjectGatewayOptions, signal: AbortSignal): Promise<OpenMetadata> {
  const lock = await lockFolder(config, options);
  try {
    const client = await connected(config, options, signal);
    const metadata = new TransactionMetadata({ client });
    await metadata.createTables(options.environment.clock, () => signal.aborted);
    return { metadata, close: () => Promise.resolve(client.close()).then(() => lock.close()) };
  } catch (thrown) {
    await lock.close();
    throw thrown;
  }
}

async function openStorage(config: ObjectGatewayConfig, options: ObjectGatewayOptions, signal: AbortSignal): Promise<OpenMetadata> {
  const lock = await lockFolder(config, options);
  const { metadata, closeRemote } = storageMetadata(config, options);
  const close = (): Promise<void> => {
    closeRemote();
    return lock.close();
  };
  try {
    // UNIMPLEMENTED: their engine has no rows of objects.
    await whenThere("storage-proxies", config.storageProxies, options, signal, () => metadata.read("", [NO_ROW]));
  } catch (thrown) {
    await close();
    throw thrown;
  }
  return { metadata, close };
}

interface StorageMetadata {
  readonly metadata: ObjectMetadata;
  closeRemote(): void;
}

function storageMetadata(config: ObjectGatewayConfig, { environment, storageMetadata: own }: ObjectGatewayOptions): StorageMetadata {
  if (own !== undefined) return { metadata: own, closeRemote: () => undefined };
  const { storageProxies, coordinatorToken } = config;
  const proxies = storageProxies.map((address) => ({ name: address, address, datacenter: "" }));
  const channels = new ProxyChannels({ ...environment, proxies, datacenter: "", coordinatorToken });
  const metadata = new StorageProxyMetadata(channels);
  const closeRemote = (): void => {
    metadata.close();
    channels.close();
  };
  return { metadata, closeRemote };
}

function connected(config: ObjectGatewayConfig, options: ObjectGatewayOptions, signal: AbortSignal): Promise<ConcordClient> {
  const { coordinators, transactionToken } = config;
  const token = transactionToken === undefined ? {} : { token: transactionToken };
  return whenThere("txn-coordinators", coordinators, options, signal, () =>
    connectThrough({ coordinators, ...token }, options.environment),
  );
}

/** The first answer of services that may not be there yet. */
function whenThere<Answer>(
  services: string,
  addresses: readonly string[],
  { environment }: ObjectGatewayOptions,
  signal: AbortSignal,
  call: () => Promise<Answer>,
): Promise<Answer> {
  const { startWaits = new StartWaits(environment) } = environment;
  return startWaits.until(`${services} at ${addresses.join(", ")}`, call, { signal, again: isRetryable });
}

function isRetryable(thrown: unknown): boolean {
  if (thrown instanceof ConcordClientError) return thrown.retryable;
  return thrown instanceof ConcordError && ERRORS[thrown.code].retryable;
}
