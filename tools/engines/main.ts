// Real engines for tests and trials, without Docker: `npm run engines -- start kafka --nodes 3`.
import { readCommandLine, USAGE } from "./command-line.ts";
import { runCommand } from "./commands.ts";

const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stopping.abort(new Error(`stopped by ${signal}`)));

try {
  const line = readCommandLine(process.argv.slice(2));
  if (line === "help") console.log(USAGE);
  else await runCommand(line, { report: (text) => console.log(text), stopping: stopping.signal });
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
