// npm run clients: every S3 client that package registries have, through a day's work with a gateway each. What cannot be installed is a printed
// skip, with CI set a failure; where a machine has no FUSE s3fs is a printed skip. Each must use all operations that recorded.json says, since docs/s3-operations.md is written from it.
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { UnableHere, type Client } from "./clients/client.ts";
import { COMPILED_CLIENTS } from "./clients/compiled-clients.ts";
import { MC } from "./clients/mc-client.ts";
import { PROGRAMS } from "./clients/programs.ts";
import { PYTHON_CLIENTS } from "./clients/python-clients.ts";
import { RECORD, recorded, type Recorded } from "./document.ts";
import { startGateway } from "./gateway-program.ts";

const HELP = `npm run clients -- [--only NAME]... [--record]

Runs awscli, boto3, s3cmd, pyarrow (the AWS SDK for C++), obstore (Rust), s5cmd (the AWS SDK for Go 1), two generations of the AWS SDK for
JavaScript, minio-js, minio-go, the AWS SDK for Go 2, Hadoop's S3A (the AWS SDK for Java 2), mc, rclone, restic and s3fs through an everyday
script, each against a gateway of its own. rclone, restic and s3fs come from the system's packages, the others are downloaded and kept.

  --only NAME  this client only; may be given several times
  --record     write what they used into testing/clients/src/s3/recorded.json
`;

const CLIENTS: readonly Client[] = [...PYTHON_CLIENTS, ...COMPILED_CLIENTS, MC, ...PROGRAMS];

type Result =
  | { readonly kind: "worked"; readonly name: string; readonly operations: readonly string[] }
  | { readonly kind: "skipped" | "failed"; readonly reason: string };

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { only: { type: "string", multiple: true }, record: { type: "boolean" }, help: { type: "boolean" } },
  });
  if (values.help === true) {
    console.log(HELP);
    return 0;
  }
  const unknown = values.only?.find((name) => !CLIENTS.some((client) => client.name === name));
  if (unknown !== undefined) {
    console.error(`--only ${unknown}: no client has this name. Names: ${CLIENTS.map(({ name }) => name).join(", ")}`);
    return 1;
  }
  const before = recorded();
  const seen: Record<string, readonly string[]> = {};
  const counts = { worked: 0, skipped: 0, failed: 0 };
  for (const client of CLIENTS.filter(({ name }) => values.only?.includes(name) ?? true)) {
    const startedAt = performance.now();
    const result = checked(await tried(client), before, values.record === true);
    counts[result.kind] += 1;
    if (result.kind === "worked") seen[result.name] = result.operations;
    const said = result.kind === "worked" ? `${result.name}: ${result.operations.length} operations` : `${client.name}: ${result.reason}`;
    console.log(`${result.kind} ${said} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)`);
  }
  if (values.record === true) writeFileSync(RECORD, `${JSON.stringify(merged(recorded(), seen), undefined, 2)}\n`);
  console.log(`${counts.worked} passed, ${counts.failed} failed${counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`}`);
  return counts.failed === 0 ? 0 : 1;
}

async function tried(client: Client): Promise<Result> {
  try {
    const installed = await client.install();
    if (installed.kind !== "ready") {
      const isFailure = installed.kind === "missing" && (process.env["CI"] ?? "") !== "";
      return { kind: isFailure ? "failed" : "skipped", reason: installed.reason };
    }
    const gateway = await startGateway();
    try {
      await installed.work(gateway);
      const own = (await gateway.operations()).filter((name) => !(client.notItsOwn?.includes(name) ?? false));
      return { kind: "worked", name: `${client.name} ${installed.version}`, operations: own };
    } finally {
      await gateway.stop();
    }
  } catch (thrown) {
    if (thrown instanceof UnableHere) return { kind: "skipped", reason: thrown.message };
    const { stderr, stdout, stack } = thrown as { readonly stderr?: string; readonly stdout?: string; readonly stack?: string };
    return { kind: "failed", reason: `${stack ?? String(thrown)}\n${stdout ?? ""}\n${stderr ?? ""}` };
  }
}

/** A client that is another version than the recorded one is not compared: the system's packages differ. */
function checked(result: Result, before: Recorded, isRecording: boolean): Result {
  const known = result.kind === "worked" ? before[result.name] : undefined;
  if (result.kind !== "worked" || known === undefined || isRecording) return result;
  const lost = known.filter((name) => !result.operations.includes(name));
  const more = result.operations.filter((name) => !known.includes(name));
  // What a slow machine makes a client repeat is no reason to fail.
  if (more.length > 0) console.log(`${result.name} used more than recorded.json says (npm run clients -- --record): ${more.join(", ")}`);
  if (lost.length === 0) return result;
  return { kind: "failed", reason: `recorded.json is stale, npm run clients -- --record: no longer ${lost.join(", ")}` };
}

/** Of each client the newest record, in the order of the clients. */
function merged(before: Recorded, seen: Recorded): Recorded {
  const clientOf = (name: string): string => name.split(" ")[0]!;
  const replaced = new Set(Object.keys(seen).map(clientOf));
  const all = [...Object.entries(before).filter(([name]) => !replaced.has(clientOf(name))), ...Object.entries(seen)];
  const order = CLIENTS.map(({ name }) => name);
  return Object.fromEntries(all.toSorted(([a], [b]) => order.indexOf(clientOf(a)) - order.indexOf(clientOf(b))));
}

process.exitCode = await main();
