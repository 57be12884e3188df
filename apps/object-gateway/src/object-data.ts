// Opens the store of blobs: files of this gateway or of several, or a pool of a Ceph cluster.
import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { combineCrc32 } from "@concord/checksums";
import { connectPool, RadosObjectData, type RadosOptions } from "@concord/adapter-rados";
import type { ObjectData } from "@concord/ports";
import { StartWaits, unreachable, type Environment } from "@concord/runtime";
import type { ObjectGatewayOptions } from "./options.ts";
import type { ObjectGatewayConfig } from "./config.ts";
import { onFailedOf } from "./metadata.ts";

export interface OpenObjectData extends ObjectData {
  /** The caller has ended every operation it began. */
  close(): Promise<void>;
}

/** Waits for a cluster that does not answer yet, until `signal` is aborted. */
export async function openObjectData(
  config: ObjectGatewayConfig,
  options: ObjectGatewayOptions,
  signal: AbortSignal,
): Promise<OpenObjectData> {
  const { environment, disk, dataDisk } = options;
  const { checksum, random, failpoint, log } = environment;
  const { packBytesMax } = config;
  switch (config.objects) {
    case "filesystem":
      return new FilesystemObjectData({
        disk: dataDisk ?? disk,
        checksum,
        random,
        combine: combineCrc32,
        failpoint,
        log,
        packBytesMax,
        onFailed: onFailedOf(options),
      });
    case "rados":
      return connected(config, environment, signal);
    default:
      return unreachable(config.objects);
  }
}

async function connected(config: ObjectGatewayConfig, environment: Environment, signal: AbortSignal): Promise<OpenObjectData> {
  const { cephConf: conf, cephUser: user, cephPool: pool, cephNamespace: namespace, drainGraceMs: graceMs } = config;
  const { clock, checksum, failpoint } = environment;
  const options: RadosOptions = { conf, user, pool, namespace, clock, stopping: { signal, graceMs } };
  const { startWaits = new StartWaits(environment) } = environment;
  const connect = async (): Promise<OpenObjectData> => new RadosObjectData({ pool: await connectPool(options), checksum, failpoint });
  return startWaits.until(`the pool ${pool} of the Ceph cluster in ${conf}`, connect, {
    signal,
    again: () => true,
    abandon: (data) => void data.close(),
  });
}
