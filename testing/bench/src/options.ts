import type { Engines } from "@concord/constellation";
import type { TopologyName } from "./concord-load.ts";

const KIB = 1024;
export const MIB = KIB * KIB;

export interface Size {
  readonly name: string;
  readonly bytes: number;
  readonly inFlight: number;
  /** Keys that are written in turn: overwrites leave garbage, so the disk does not grow without end. */
  readonly keys: number;
}

/** Names for `--systems`; "minio" is a peer, "ceph" is radosgw and a gateway of ours on the same cluster. */
export const S3_SYSTEMS = ["floor", "reservation", "per-transaction", "off", "overwrites", "versions", "minio", "ceph"] as const;

export type S3System = (typeof S3_SYSTEMS)[number];

export const SIZES: readonly Size[] = [
  { name: "4 KiB", bytes: 4 * KIB, inFlight: 16, keys: 2_000 },
  { name: "1 MiB", bytes: MIB, inFlight: 8, keys: 200 },
  { name: "64 MiB", bytes: 64 * MIB, inFlight: 2, keys: 8 },
];

export interface BenchOptions {
  readonly seconds: number;
  /** Duration of soak. */
  readonly minutes: number;
  readonly levels: readonly number[];
  /** Topologies of Concord, run one after the other. */
  readonly topologies: readonly TopologyName[];
  readonly out: string | undefined;
  /** Ids of the window (dedup), rows (restart). */
  readonly ids: number;
  /** Kills of failover. */
  readonly kills: number;
  /** Processes that only take CPU (soak). */
  readonly busy: number;
  /** Delay, in milliseconds, after which a client opens at the standbys too (txn); its default when undefined. */
  readonly standbyDelayMs: number | undefined;
  /** Node names to profile; their .cpuprofile files are kept in this folder. */
  readonly profileFolder: string | undefined;
  /** Brokers of Kafka, host:port (dedup): its logs are there instead of on the disk. */
  readonly kafka: readonly string[];
  /** Engines that keep Concord's rows (txn). */
  readonly engines: Engines;
  /** Systems and sizes that s3 measures, and the duration of its overwrites. */
  readonly s3: { readonly systems: readonly S3System[]; readonly sizes: readonly Size[]; readonly overwriteSeconds: number };
}
