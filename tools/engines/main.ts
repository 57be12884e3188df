// Real engines for tests and trials, without Docker: `npm run engines -- start kafka --nodes 3`.
import { readCommandLine } from "./command-line.ts";
import { runCommand } from "./commands.ts";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort(new Error(`stopped by ${signal}`)));

try {
  await runCommand(readCommandLine(process.argv.slice(2)), { report: (line) => console.log(line), stopping: stopping.signal });
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
