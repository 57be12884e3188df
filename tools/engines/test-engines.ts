// Tests on real engines: one cluster per suite, all files `src/test/*.SUITE.ts` of the workspace. An engine that cannot run here is a printed
// skip, and a failure in CI: `npm run test:engines [SUITE...]`.
import { spawnSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ENGINES, type EngineName } from "./command-line.ts";
import { Cluster } from "./cluster.ts";
import { addressesOf, ENGINE_OF, runCommand, type CommandContext } from "./commands.ts";
import { contractTable } from "./contract-cases.ts";
import { countsLine, endedTests, failureList, failureOf, type EndedTest, type FailedSuite } from "./ended-tests.ts";
import { isOnPath, missingRequirements } from "./requirements.ts";

/** Ends a file that hangs; no measure of speed: one that takes 30 s alone was seen to take 200 s beside six other loads. */
const FILE_LIMIT_MS = 600_000;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const REPORTER = fileURLToPath(new URL("case-reporter.mjs", import.meta.url));
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort(new Error(`stopped by ${signal}`)));
const context: CommandContext = { report: (line) => console.log(line), stopping: stopping.signal };

/** Environment that tells tests where the engine is: its addresses where it has some, and its folder. */
function environmentOf({ layout, folder }: Cluster): Record<string, string> {
  const addresses = addressesOf(layout);
  const name = `ENGINE_${layout.engine.toUpperCase()}`;
  return { [name]: addresses.length > 0 ? addresses.join(",") : folder, [`${name}_FOLDER`]: folder };
}

interface Suite {
  /** Of the files' names. */
  readonly name: string;
  readonly engine: EngineName;
  readonly nodes?: number;
  readonly oneDatacenter?: boolean;
  readonly hasRoles?: boolean;
}

const SUITES: readonly Suite[] = [
  ...ENGINES.map((engine) => ({ name: engine, engine })),
  { name: "cassandra-racks", engine: "cassandra", nodes: 3, oneDatacenter: true },
  { name: "cassandra-roles", engine: "cassandra", hasRoles: true },
];

function usageOf({ name, engine, nodes = 1, oneDatacenter = false, hasRoles = false }: Suite): string {
  const racks = oneDatacenter ? ", in one datacenter of as many racks" : "";
  return `  ${name.padEnd(16)} ${engine}, nodes: ${nodes}${racks}${hasRoles ? ", with roles and permissions" : ""}`;
}

const USAGE = `npm run test:engines -- [SUITE...]

Starts each suite's engine in a temporary folder, runs its tests and stops it; all suites when none is named.
At the end: how many promises of each port held on each adapter. An engine that cannot run here is a printed skip; with CI in the environment it
is a failure.

${SUITES.map(usageOf).join("\n")}
`;

const chosen = process.argv.slice(2);
if (chosen.some((argument) => argument === "--help" || argument === "-h")) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const unknown = chosen.filter((name) => !SUITES.some((suite) => suite.name === name));
if (unknown.length > 0) {
  process.stderr.write(`no such suite: ${unknown.join(", ")}\n\n${USAGE}`);
  process.exit(2);
}

/** Of all suites. */
const ended: EndedTest[] = [];

/** Undefined when it passed, or is skipped. */
async function testOn(
  { name, engine, nodes, oneDatacenter = false, hasRoles = false }: Suite,
  files: readonly string[],
): Promise<FailedSuite | undefined> {
  const missing = missingRequirements(ENGINE_OF[engine], process.platform, isOnPath);
  if (missing.length > 0) {
    const reason = missing.join("; ");
    console.log(`${engine}: ${process.env["CI"] === undefined ? "SKIPPED" : "FAILED"}: ${reason}`);
    return process.env["CI"] === undefined ? undefined : { name, reason };
  }
  const data = mkdtempSync(join(tmpdir(), `concord-${engine}-`));
  const line = { engine, data, nodes: undefined, oneDatacenter, hasRoles, isShortLived: true, node: undefined };
  try {
    await runCommand({ ...line, command: "start", nodes }, context);
    return runFiles(name, Cluster.find(data, context.report, context.stopping)!, files);
  } catch (error) {
    console.error(error);
    return { name, reason: String(error) };
  } finally {
    await runCommand({ ...line, command: "stop" }, context).catch((error: unknown) => console.error(String(error)));
    rmSync(data, { recursive: true, force: true });
  }
}

function runFiles(name: string, cluster: Cluster, files: readonly string[]): FailedSuite | undefined {
  const cases = join(cluster.folder, "cases");
  const reporters = ["--test-reporter=spec", "--test-reporter-destination=stdout", `--test-reporter=${REPORTER}`];
  const limits = ["--test-concurrency=1", `--test-timeout=${FILE_LIMIT_MS}`];
  const args = ["--test", ...limits, ...reporters, `--test-reporter-destination=${cases}`, ...files];
  const exit = spawnSync(process.execPath, args, { stdio: "inherit", env: { ...process.env, ...environmentOf(cluster) } });
  const tests = existsSync(cases) ? endedTests(readFileSync(cases, "utf8")) : [];
  ended.push(...tests);
  return failureOf(name, exit, tests);
}

const failed: FailedSuite[] = [];
for (const suite of SUITES.filter(({ name }) => chosen.length === 0 || chosen.includes(name))) {
  const files = globSync(`{libs,apps,testing}/*/src/test/*.${suite.name}.ts`).toSorted();
  if (files.length === 0) continue;
  const startMs = performance.now();
  const failure = await testOn(suite, files);
  if (failure !== undefined) failed.push(failure);
  console.log(`${suite.name}: ${failure === undefined ? "passed" : "failed"} in ${((performance.now() - startMs) / 1000).toFixed(0)} s`);
  if (stopping.signal.aborted) break;
}
const table = contractTable(ended, ROOT);
if (table !== "") console.log(`\nPromises of the ports that were tested on real engines:\n${table}`);
if (failed.length > 0)
  console.log(`\nFailed, in the suites ${failed.map(({ name }) => name).join(", ")}:\n${failureList(ended, failed, ROOT)}`);
console.log(`\n${countsLine(ended, failed)}`);
process.exitCode = failed.length === 0 ? 0 : 1;
