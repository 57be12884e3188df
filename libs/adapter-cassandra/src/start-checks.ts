import { ConcordError } from "@concord/runtime";
import { failureOf } from "./failure.ts";
import { BATCH_BYTES_STANDARD, CAS_CONTENTION_TIMEOUT_MS_MIN, MUTATION_BYTES_MAX, ROWS_GC_GRACE_SECONDS } from "./limits.ts";
import { reasonOf } from "./permissions.ts";
import type { CassandraSession, Column, ResultRow } from "./session.ts";

/** What the adapter takes from the nodes' settings. */
export interface NodeSettings {
  /** Bytes of a batch over several partitions. */
  readonly batchBytesMax: number;
}

type Settings = ReadonlyMap<string, string>;

/**
 * What TXC3 demands, read from the node itself. INTERNAL with the names of all settings that are wrong: what it acknowledged could be lost,
 * or a group's log could not be decided.
 */
export async function checkNode(session: Pick<CassandraSession, "ask">, address: string): Promise<NodeSettings> {
  let version: string;
  let settings: Settings;
  try {
    const [local] = await session.ask(address, "SELECT release_version FROM system.local");
    version = textOf(local?.["release_version"]);
    settings = settingsOf(await session.ask(address, "SELECT name, value FROM system_views.settings"));
  } catch (thrown) {
    const failure = failureOf(thrown);
    const message = `Cassandra node ${address} could not be checked: ${reasonOf(failure)}`;
    throw new ConcordError(failure.kind === "refused" ? "INTERNAL" : "REPLICAS_UNAVAILABLE", message, { applied: "no", cause: failure });
  }
  const faults = faultsOf(version, settings);
  if (faults.length > 0)
    throw new ConcordError("INTERNAL", `Cassandra node ${address} cannot keep Concord's data:\n${faults.join("\n")}`, { applied: "no" });
  return { batchBytesMax: bytesOf(settings.get("batch_size_fail_threshold")) ?? BATCH_BYTES_STANDARD };
}

function settingsOf(rows: readonly ResultRow[]): Settings {
  return new Map(rows.map((row) => [textOf(row["name"]), textOf(row["value"])]));
}

/** "" for what is no text: a setting that is not set. */
function textOf(column: Column): string {
  return typeof column === "string" ? column : "";
}

/** One line per setting that is wrong, with what it must be. */
export function faultsOf(version: string, settings: Settings): readonly string[] {
  const faults: string[] = [];
  const must = (isRight: boolean, fault: string): void => void (isRight || faults.push(fault));
  const shown = (name: string): string => `${name} is ${settings.get(name) ?? "unknown"}`;
  must(isVersionKnown(version), `version ${version}: 4.1.6 or newer of 4.1, or 5.0, is needed: Paxos of others is not safe enough`);
  must(
    settings.get("paxos_variant") === "v2",
    `${shown("paxos_variant")}: it must be v2 (v1 takes four rounds, and others are not linearizable)`,
  );
  must(
    ["batch", "group"].includes(settings.get("commitlog_sync") ?? ""),
    `${shown("commitlog_sync")}: it must be batch or group: periodic acknowledges before the disk has it`,
  );
  const contentionMs = millisecondsOf(settings.get("cas_contention_timeout"));
  must(
    contentionMs !== undefined && contentionMs >= CAS_CONTENTION_TIMEOUT_MS_MIN,
    `${shown("cas_contention_timeout")}: it must be at least ${CAS_CONTENTION_TIMEOUT_MS_MIN} ms`,
  );
  const mutationBytes = bytesOf(settings.get("max_mutation_size")) ?? (bytesOf(settings.get("commitlog_segment_size")) ?? 0) / 2;
  must(
    mutationBytes > MUTATION_BYTES_MAX,
    `${shown("max_mutation_size")} (half of commitlog_segment_size): it must be above ${MUTATION_BYTES_MAX} bytes`,
  );
  const hintMs = millisecondsOf(settings.get("max_hint_window"));
  must(
    hintMs !== undefined && hintMs < ROWS_GC_GRACE_SECONDS * 1000,
    `${shown("max_hint_window")}: it must be below gc_grace_seconds of the tables, ${ROWS_GC_GRACE_SECONDS}`,
  );
  return faults;
}

function isVersionKnown(version: string): boolean {
  const [major, minor, patch] = version.split(/[.-]/).map(Number);
  if (major === 4) return minor === 1 && patch! >= 6;
  return major === 5 && minor === 0;
}

const MILLISECONDS: Readonly<Record<string, number>> = { ns: 1e-6, us: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const BYTES: Readonly<Record<string, number>> = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };

/** "10s", "1000ms"; undefined for anything else. */
function millisecondsOf(text: string | undefined): number | undefined {
  return quantity(text, MILLISECONDS);
}

function bytesOf(text: string | undefined): number | undefined {
  return quantity(text, BYTES);
}

function quantity(text: string | undefined, units: Readonly<Record<string, number>>): number | undefined {
  const [, number, unit] = /^(\d+)([A-Za-z]+)$/.exec(text ?? "") ?? [];
  const factor = unit === undefined ? undefined : units[unit];
  return factor === undefined ? undefined : Number(number) * factor;
}
