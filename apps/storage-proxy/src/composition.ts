import { tokensOf } from "@concord/config";
import type { FailureObserver } from "@concord/failure-detection";
import type { Store } from "@concord/ports";
import { tokenAuthenticator } from "@concord/rpc";
import type { ConcordError, Disk, Environment, SpaceReserve } from "@concord/runtime";
import type { OpenBackend } from "./backend-definition.ts";
import { BACKENDS } from "./backends.ts";
import type { StorageProxyConfig } from "./config.ts";
import { StorageProxyService } from "./service.ts";

export interface StorageProxyOptions {
  readonly environment: Environment;
  /** The data folder; the machine's when not given. */
  readonly disk?: Disk;
  /** Space on `disk` that the node keeps, and others borrow from, too; its own, of `reserveBytes`, when not given. */
  readonly reserve?: SpaceReserve;
  /** The node's store by node name; one in the data folder when not given. */
  readonly openKeyValue?: (name: string) => Promise<Store>;
  /** The store failed: the process must end and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
  /** What the cluster thinks of the nodes of the ring; heartbeats by UDP when not given. */
  readonly failures?: FailureObserver;
  /** A backend in place of the configured one. */
  readonly openBackend?: OpenBackend<StorageProxyConfig>;
}

/** A storage-proxy on the backend that its configuration names. */
export function composeStorageProxy(config: StorageProxyConfig, options: StorageProxyOptions): StorageProxyService {
  const { environment, disk, reserve, openKeyValue, failures } = options;
  return new StorageProxyService({
    config,
    environment,
    authenticator: tokenAuthenticator(tokensOf(config)),
    onFailed: options.onFailed ?? ((cause) => void Promise.reject(cause)),
    openBackend: options.openBackend ?? BACKENDS[config.backend].open,
    ...(disk === undefined ? {} : { disk }),
    ...(reserve === undefined ? {} : { reserve }),
    ...(openKeyValue === undefined ? {} : { openKeyValue }),
    ...(failures === undefined ? {} : { failures }),
  });
}
