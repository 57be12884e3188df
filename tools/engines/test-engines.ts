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
import { contractTable, endedTests, type EndedTest } from "./contract-cases.ts";
import { isOnPath, missingRequirements } from "./requirements.ts";

const FILE_LIMIT_MS = 300_000;
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
}

const SUITES: readonly Suite[] = [
  ...ENGINES.map((engine) => ({ name: engine, engine })),
  { name: "cassandra-racks", engine: "cassandra", nodes: 3, oneDatacenter: true },
];

const USAGE = `npm run test:engines -- [SUITE...]

Starts each suite's engine in a temporary folder, runs its tests and stops it; all suites when none is named.
At the end: how many promises of each port held on each adapter. An engine that cannot run here is a printed skip; with CI in the environment it
is a failure.

${SUITES.map(({ name, engine, nodes = 1, oneDatacenter = false }) => `  ${name.padEnd(16)} ${engine}, nodes: ${nodes}${oneDatacenter ? ", in one datacenter of as many racks" : ""}`).join("\n")}
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

async function testOn({ engine, nodes, oneDatacenter = false }: Suite, files: readonly string[]): Promise<boolean> {
  const missing = missingRequirements(ENGINE_OF[engine], process.platform, isOnPath);
  if (missing.length > 0) {
    console.log(`${engine}: ${process.env["CI"] === undefined ? "SKIPPED" : "FAILED"}: ${missing.join("; ")}`);
    return process.env["CI"] === undefined;
  }
  const data = mkdtempSync(join(tmpdir(), `concord-${engine}-`));
  const line = { engine, data, nodes: undefined, oneDatacenter, isShortLived: true, node: undefined };
  try {
    await runCommand({ ...line, command: "start", nodes }, context);
    const cluster = Cluster.find(data, context.report, context.stopping)!;
    const cases = join(data, "cases");
    const reporters = ["--test-reporter=spec", "--test-reporter-destination=stdout", `--test-reporter=${REPORTER}`];
    const limits = ["--test-concurrency=1", `--test-timeout=${FILE_LIMIT_MS}`];
    const args = ["--test", ...limits, ...reporters, `--test-reporter-destination=${cases}`, ...files];
    const { status } = spawnSync(process.execPath, args, { stdio: "inherit", env: { ...process.env, ...environmentOf(cluster) } });
    if (existsSync(cases)) ended.push(...endedTests(readFileSync(cases, "utf8")));
    return status === 0;
  } finally {
    await runCommand({ ...line, command: "stop" }, context).catch((error: unknown) => console.error(String(error)));
    rmSync(data, { recursive: true, force: true });
  }
}

let failed = 0;
for (const suite of SUITES.filter(({ name }) => chosen.length === 0 || chosen.includes(name))) {
  const files = globSync(`{libs,apps,testing}/*/src/test/*.${suite.name}.ts`).toSorted();
  if (files.length === 0) continue;
  const startMs = performance.now();
  const isPassed = await testOn(suite, files);
  if (!isPassed) failed += 1;
  console.log(`${suite.name}: ${isPassed ? "passed" : "failed"} in ${((performance.now() - startMs) / 1000).toFixed(0)} s`);
}
const table = contractTable(ended, ROOT);
if (table !== "") console.log(`\nPromises of the ports that were tested on real engines:\n${table}`);
process.exitCode = failed === 0 ? 0 : 1;
