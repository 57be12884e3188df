import type { Engines } from "@concord/constellation";
import type { TopologyName } from "./concord-load.ts";

const KIB = 1024;
const MIB = KIB * KIB;

export interface Size {
  readonly name: string;
  readonly bytes: number;
  readonly inFlight: number;
  /** Keys that are written in turn: overwrites leave garbage, so the disk does not grow without end. */
  readonly keys: number;
}

/** What `--systems` names; "minio" is a peer, "ceph" is radosgw and a gateway of ours on the same cluster. */
export const S3_SYSTEMS = ["floor", "reservation", "per-transaction", "off", "overwrites", "versions", "minio", "ceph"] as const;

export type S3System = (typeof S3_SYSTEMS)[number];

export const SIZES: readonly Size[] = [
  { name: "4 KiB", bytes: 4 * KIB, inFlight: 16, keys: 2_000 },
  { name: "1 MiB", bytes: MIB, inFlight: 8, keys: 200 },
  { name: "64 MiB", bytes: 64 * MIB, inFlight: 2, keys: 8 },
];

export interface BenchOptions {
  readonly seconds: number;
  /** Of soak. */
  readonly minutes: number;
  readonly levels: readonly number[];
  /** How Concord is run, one after the other. */
  readonly topologies: readonly TopologyName[];
  readonly out: string | undefined;
  /** Ids of the window (dedup), rows (restart). */
  readonly ids: number;
  /** Kills of failover. */
  readonly kills: number;
  /** Processes that only take CPU (soak). */
  readonly busy: number;
  /** When a client opens at the standbys too, milliseconds (txn); its default when undefined. */
  readonly standbyDelayMs: number | undefined;
  /** Node names to profile; their .cpuprofile files are kept in this folder. */
  readonly profileFolder: string | undefined;
  /** Brokers of Kafka, host:port (dedup): its logs are there instead of on the disk. */
  readonly kafka: readonly string[];
  /** What Concord's rows are in (txn). */
  readonly engines: Engines;
  /** What s3 measures, and how long it overwrites. */
  readonly s3: { readonly systems: readonly S3System[]; readonly sizes: readonly Size[]; readonly overwriteSeconds: number };
}
