// Add a photo to an album: lock the album's row, insert the photo with its index on (owner, modified), raise the album's counter,
// commit durably. PostgreSQL does the same work in the same run.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@concord/client";
import { addPhoto, ALBUMS, createAlbums } from "./albums.ts";
import type { BenchOptions } from "./options.ts";
import { measured, startForBench, TOPOLOGIES, warmUp, type ConcordResult, type TopologyName } from "./concord-load.ts";
import type { LoadOptions } from "./load.ts";
import { startPostgres, type Postgres, type PostgresResult } from "./postgres.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const POSTGRES_TABLES = `
  CREATE TABLE albums (id bigint PRIMARY KEY, owner text, public_photos int);
  CREATE TABLE photos (album bigint, id uuid, owner text, modified timestamptz, public boolean, PRIMARY KEY (album, id));
  CREATE INDEX by_owner ON photos (owner, modified);
  INSERT INTO albums SELECT id, 'owner-' || id, 0 FROM generate_series(1, ${ALBUMS}) AS id;
  VACUUM ANALYZE albums;`;

const POSTGRES_SCRIPT = `
\\set album random(1, ${ALBUMS})
BEGIN;
SELECT owner, public_photos FROM albums WHERE id = :album FOR UPDATE;
INSERT INTO photos VALUES (:album, gen_random_uuid(), 'owner-' || :album, clock_timestamp(), true);
UPDATE albums SET public_photos = public_photos + 1 WHERE id = :album;
COMMIT;
`;

interface Line {
  readonly topology: TopologyName;
  readonly inFlight: number;
  readonly concord: ConcordResult;
  readonly postgres: PostgresResult | undefined;
}

export async function txnBench(options: BenchOptions): Promise<void> {
  const postgres = await startPostgres(console.log);
  const lines: Line[] = [];
  try {
    for (const sql of postgres === undefined ? [] : POSTGRES_TABLES.split(";").filter((one) => one.trim() !== "")) await postgres!.sql(sql);
    for (const topology of options.topologies) lines.push(...(await measureTopology(topology, options, postgres)));
  } finally {
    await postgres?.stop();
  }
  report(options, lines, postgres?.version);
}

async function measureTopology(topology: TopologyName, options: BenchOptions, postgres: Postgres | undefined): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, topology, options);
  const { standbyDelayMs } = options;
  const db = await connect({ coordinators: constellation.coordinators, ...(standbyDelayMs === undefined ? {} : { standbyDelayMs }) });
  const lines: Line[] = [];
  try {
    await createAlbums(db);
    await warmUp(() => addPhoto(db));
    for (const inFlight of options.levels) {
      const load: LoadOptions = { inFlight, seconds: options.seconds, warmUpSeconds: Math.ceil(options.seconds / 4) };
      const concord = await measured(constellation, load, () => addPhoto(db));
      lines.push({ topology, inFlight, concord, postgres: await postgres?.pgbench(POSTGRES_SCRIPT, load) });
      console.log(`measured ${topology}, ${inFlight} in flight`);
    }
    return lines;
  } finally {
    db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function report(options: BenchOptions, lines: readonly Line[], version: string | undefined): void {
  const on = machine();
  const rows = lines.flatMap(({ topology, inFlight, concord, postgres }) => [
    cells(`Concord, ${topology}`, inFlight, concord, options.seconds),
    ...(postgres === undefined ? [] : [cells("PostgreSQL", inFlight, postgres, options.seconds)]),
  ]);
  const head = ["system", "in flight", "tx/s", "p50 ms", "p99 ms", "server CPU %", "client CPU %", "CPU us/tx", "memory MiB"];
  console.log(`\nadd photo with index, durable; ${machineLine(on)}`);
  for (const topology of options.topologies) console.log(`Concord, ${topology}: ${TOPOLOGIES[topology].about}`);
  console.log(`PostgreSQL: ${version ?? "not installed"}, one copy\n`);
  console.log(renderTable([head, ...rows]));
  const ratios = lines.flatMap(({ topology, inFlight, concord, postgres }) =>
    postgres === undefined
      ? []
      : [
          {
            topology,
            inFlight,
            throughput: concord.perSecond / postgres.perSecond,
            p50: concord.p50Ms / postgres.p50Ms,
            p99: concord.p99Ms / postgres.p99Ms,
          },
        ],
  );
  for (const { topology, inFlight, throughput, p50, p99 } of ratios) {
    console.log(
      `${topology}, ${inFlight} in flight: Concord / PostgreSQL = ${throughput.toFixed(2)}x tx/s, ${p50.toFixed(2)}x p50, ${p99.toFixed(2)}x p99`,
    );
  }
  writeReport(options.out, { bench: "txn", machine: on, postgres: version, seconds: options.seconds, lines, ratios });
}

function cells(system: string, inFlight: number, result: ConcordResult | PostgresResult, seconds: number): string[] {
  const { perSecond, p50Ms, p99Ms, serverCpuSeconds, clientCpuSeconds } = result;
  const percent = (cpu: number): string => ((cpu / seconds) * 100).toFixed(0);
  const usPerTransaction = ((serverCpuSeconds + clientCpuSeconds) * 1e6) / Math.max(1, perSecond * seconds);
  const figures = [perSecond.toFixed(0), p50Ms.toFixed(2), p99Ms.toFixed(2), percent(serverCpuSeconds), percent(clientCpuSeconds)];
  return [system, String(inFlight), ...figures, usPerTransaction.toFixed(0), result.memoryMiB.toFixed(0)];
}
