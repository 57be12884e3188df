// npm run demo: a constellation in a temporary folder, used by real clients; exit 0 only if every scenario held.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { RowsService } from "@concord/protos-storage";
import { TopologyService } from "@concord/protos-txn";
import {
  type Client,
  type Constellation,
  enginesOf,
  EVERYTHING,
  installClient,
  OWN_ENGINES,
  type PlainGrpc,
  plainGrpc,
  startConstellation,
} from "@concord/constellation";
import { albumScenario } from "./album.ts";
import { batchScenario } from "./batch.ts";
import { dedupScenario } from "./dedup.ts";
import { failoverScenario } from "./failover.ts";
import type { ScenarioResult } from "./figures.ts";
import { objectScenario } from "./object.ts";

const HELP = `npm run demo -- [--keep] [--storage cassandra] [--log kafka] [--objects rados] [--engines DIR]

Starts a constellation in a temporary folder on free ports, installs the packed client beside it and runs the scenarios "album",
"batch", "object" and "dedup" with real clients, then "failover" on three nodes of one process each. One line each; exit code 0 only if all held.

  --keep           leave the folder with data and logs behind
  --storage, --log, --objects, --engines
                   as of npm start: on engines that npm run engines has started
`;

/** The services' write timeout in the demo: orphaned batches are replayed after twice as long. */
const WRITE_TIMEOUT_MS = 1_000;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      keep: { type: "boolean" },
      help: { type: "boolean" },
      storage: { type: "string", default: OWN_ENGINES.storage },
      log: { type: "string", default: OWN_ENGINES.log },
      objects: { type: "string", default: OWN_ENGINES.objects },
      engines: { type: "string", default: OWN_ENGINES.folder },
    },
  });
  if (values.help === true) {
    console.log(HELP);
    return 0;
  }
  const engines = enginesOf(values);
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "concord-demo-"));
  const seconds = (): string => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  const installing = installClient(join(folder, "client"));
  const constellation = await startConstellation({
    dataFolder: join(folder, "data"),
    portBase: "free",
    members: EVERYTHING,
    engines,
    config: { "storage-proxy": { writeTimeoutMs: WRITE_TIMEOUT_MS, batchReplayIntervalMs: 500 } },
    onCrash: (node, exit) => console.log(`(${node.plan.name} ended: ${exit.signal ?? `exit code ${exit.code}`})`),
  });
  console.log(`ready: ${constellation.nodes.length} processes in ${seconds()}`);
  let held = false;
  let client: Client | undefined;
  try {
    const installed = await installing;
    client = installed.client;
    console.log(`client: packed, installed and imported by ${seconds()}`);
    const grpc = plainGrpc(installed);
    held = report(await albumScenario(installed.client, constellation));
    held = report(await plainScenario(constellation, grpc)) && held;
    held = report(await batchScenario(installed.client, constellation, grpc, engines.storage)) && held;
    held = report(await objectScenario(constellation, grpc)) && held;
    held = report(await dedupScenario(constellation, grpc)) && held;
  } finally {
    await constellation.stop();
  }
  try {
    held = report(await failoverScenario(client, folder, engines)) && held;
  } finally {
    if (values.keep === true || !held) console.log(`data and logs: ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
  }
  console.log(`${held ? "all held" : "FAILED"} in ${seconds()}`);
  return held ? 0 : 1;
}

function report({ held, line }: ScenarioResult): boolean {
  console.log(`${held ? "held  " : "FAILED"} ${line}`);
  return held;
}

/** A program without our client sees the same: topology from a coordinator, the album from every storage-proxy. */
async function plainScenario(constellation: Constellation, grpc: PlainGrpc): Promise<ScenarioResult> {
  const topology = grpc(constellation.coordinators[0]!, TopologyService);
  const { groups } = await topology.call("GetTopology", {});
  topology.close();
  const counters = new Set<number | undefined>();
  for (const address of constellation.storageProxies) {
    const rows = grpc(address, RowsService);
    const request = { statement: { text: "SELECT public_photos FROM shared_albums WHERE id = ?", binds: [{ bigintValue: 1n }] } };
    const answer = await rows.call("Query", request);
    counters.add(answer.rows[0]?.columns[0]?.value?.intValue);
    rows.close();
  }
  const held = groups.length > 0 && counters.size === 1 && !counters.has(undefined);
  return {
    held,
    line: `plain grpc-js: ${groups.length} transaction groups; album 1 read at 3 storage-proxies: ${[...counters].join(" / ")} public photos`,
  };
}

process.exitCode = await main();
