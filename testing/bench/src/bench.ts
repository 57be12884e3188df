// npm run bench -- NAME
import { parseArgs } from "node:util";
import { enginesOf, OWN_ENGINES } from "@concord/constellation";
import { batchBench } from "./batch.ts";
import { TOPOLOGIES, type TopologyName } from "./concord-load.ts";
import { dedupBench } from "./dedup.ts";
import { dedupKafkaBench } from "./dedup-kafka.ts";
import { failoverBench } from "./failover.ts";
import { ingestBench } from "./ingest.ts";
import { overloadBench } from "./overload.ts";
import { restartBench } from "./restart.ts";
import { s3Bench } from "./s3.ts";
import { S3_SYSTEMS, SIZES } from "./options.ts";
import { soakBench } from "./soak.ts";
import { steadyBench } from "./steady.ts";
import { txnBench } from "./txn.ts";
import { txnCassandraBench } from "./txn-cassandra.ts";
import type { BenchOptions } from "./options.ts";

const BENCHES: Readonly<Record<string, { readonly what: string; readonly run: (options: BenchOptions) => Promise<void> }>> = {
  txn: {
    what: "add a photo to an album, with index, durable; beside PostgreSQL doing the same, or beside Cassandra alone (--storage cassandra)",
    run: (options) => (options.engines.storage === "cassandra" ? txnCassandraBench(options) : txnBench(options)),
  },
  batch: { what: "the price of the log: logged against unlogged batches (LB14)", run: batchBench },
  dedup: {
    what: "a worker's cycle, and what an id costs, beside the two-index layout (DD17); with --kafka beside a plain kafkajs copy; --ids only",
    run: (options) => (options.kafka.length > 0 ? dedupKafkaBench(options, options.kafka) : dedupBench(options)),
  },
  ingest: {
    what: "messages through a dedup-worker over gRPC, 100 and 1 per call: server CPU per message; --in-flight has no effect",
    run: ingestBench,
  },
  s3: {
    what: "uploads and downloads of 4 KiB, 1 MiB and 64 MiB, what the journal modes cost (OGD6), and overwrites while garbage is collected; --in-flight has no effect",
    run: s3Bench,
  },
  steady: { what: "disk, memory and index pages while rows are overwritten for --seconds", run: steadyBench },
  failover: {
    what: "milliseconds without a master: --kills times SIGKILL of the busiest of three nodes, then each restarted in turn",
    run: failoverBench,
  },
  overload: {
    what: "bulk transactions offered at 1, 2, 5 and 10 times the capacity; --in-flight has no effect",
    run: overloadBench,
  },
  soak: {
    what: "verdicts of three nodes against each other in --minutes of txn's load, while none dies: each is false, and the first one ends it; --in-flight has no effect",
    run: soakBench,
  },
  restart: { what: "seconds until --ids rows are served again, after a stop and after a kill in full load", run: restartBench },
};

const HELP = `npm run bench -- NAME [--seconds N] [--in-flight A,B,C] [--topology A,B] [--ids N] [--kills N] [--minutes N] [--out FILE] [--profile FOLDER]

${Object.entries(BENCHES)
  .map(([name, { what }]) => `  ${name.padEnd(8)} ${what}`)
  .join("\n")}

  --seconds N        measured seconds per line (default 8), after a warm-up of a quarter of it
  --in-flight LIST   how many run at the same time (default 1,64,256)
  --topology LIST    ${Object.entries(TOPOLOGIES)
    .map(([name, { about }]) => `${name} (${about})`)
    .join("; ")};
                     default one,three (not for dedup and s3)
  --ids N            ids of the window, rows of restart (default 1000000)
  --kills N          kills of failover (default 50); --topology and --in-flight have no effect on it
  --minutes N        measured minutes of soak (default 30)
  --busy N           processes that only take CPU beside soak's nodes (default 0)
  --standby-delay MS clients open each transaction at the standbys too after so long, 0 = at once (txn; default the client's own)
  --out FILE         also write the figures as JSON
  --storage NAME     cassandra: rows are in the Cassandra that npm run engines -- start cassandra has started (txn)
  --engines DIR      where it was started (default ${OWN_ENGINES.folder})
  --kafka LIST       brokers, host:port, of a started Kafka (npm run engines -- start kafka)
  --systems LIST     what s3 measures: ${S3_SYSTEMS.join(", ")} (default all)
  --sizes LIST       of these sizes: ${SIZES.map(({ name }) => sizeFlag(name)).join(", ")} (s3, default all)
  --overwrite-seconds N  measured seconds of s3's overwrites (default 60)
  --profile FOLDER   also write CPU profiles of the first node of each service
`;

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: "string", default: "8" },
      "in-flight": { type: "string", default: "1,64,256" },
      topology: { type: "string", default: "one,three" },
      ids: { type: "string", default: "1000000" },
      kills: { type: "string", default: "50" },
      minutes: { type: "string", default: "30" },
      busy: { type: "string", default: "0" },
      "standby-delay": { type: "string" },
      out: { type: "string" },
      profile: { type: "string" },
      kafka: { type: "string", default: "" },
      storage: { type: "string", default: OWN_ENGINES.storage },
      engines: { type: "string", default: OWN_ENGINES.folder },
      systems: { type: "string", default: S3_SYSTEMS.join(",") },
      sizes: { type: "string", default: SIZES.map(({ name }) => sizeFlag(name)).join(",") },
      "overwrite-seconds": { type: "string", default: "60" },
      help: { type: "boolean" },
    },
  });
  const name = positionals[0] ?? "";
  const bench = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
  if (values.help === true || bench === undefined) {
    console.log(HELP);
    process.exitCode = values.help === true ? 0 : 2;
    return;
  }
  const levels = values["in-flight"].split(",").map(Number);
  const topologies = values.topology.split(",").filter(isTopology);
  if (topologies.length !== values.topology.split(",").length)
    throw new Error(`--topology takes ${Object.keys(TOPOLOGIES).join(", ")}, several with commas between`);
  const seconds = Number(values.seconds);
  const [ids, kills, minutes] = [Number(values.ids), Number(values.kills), Number(values.minutes)];
  if (![seconds, ids, kills, minutes, ...levels].every((number) => Number.isInteger(number) && number > 0))
    throw new Error("--seconds, --in-flight, --ids, --kills and --minutes take whole numbers above 0");
  const busy = Number(values.busy);
  const standbyDelayMs = values["standby-delay"] === undefined ? undefined : Number(values["standby-delay"]);
  if (![busy, standbyDelayMs ?? 0].every((number) => Number.isInteger(number) && number >= 0))
    throw new Error("--busy and --standby-delay take whole numbers");
  await bench.run({
    seconds,
    levels,
    topologies,
    ids,
    kills,
    minutes,
    busy,
    standbyDelayMs,
    out: values.out,
    profileFolder: values.profile,
    engines: enginesOf({ ...OWN_ENGINES, storage: values.storage, engines: values.engines }),
    kafka: values.kafka.split(",").filter(Boolean),
    s3: s3Options(values.systems, values.sizes, Number(values["overwrite-seconds"])),
  });
}

function s3Options(systemList: string, sizeList: string, overwriteSeconds: number): BenchOptions["s3"] {
  const systems = systemList.split(",").map((name) => S3_SYSTEMS.find((system) => system === name));
  const sizes = sizeList.split(",").map((flag) => SIZES.find(({ name }) => sizeFlag(name) === flag));
  if (!systems.every((system) => system !== undefined) || !sizes.every((size) => size !== undefined))
    throw new Error("--systems and --sizes take names of the help, several with commas between");
  if (!Number.isInteger(overwriteSeconds) || overwriteSeconds <= 0) throw new Error("--overwrite-seconds takes a whole number above 0");
  return { systems, sizes, overwriteSeconds };
}

/** "64MiB": a size's name on the command line. */
function sizeFlag(name: string): string {
  return name.replace(" ", "");
}

function isTopology(name: string): name is TopologyName {
  return Object.hasOwn(TOPOLOGIES, name);
}

await main();
