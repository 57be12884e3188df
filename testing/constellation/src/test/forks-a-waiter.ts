// Forks a process that waits for its first message, sends it one later, and exits with that process's code.
import { fork } from "node:child_process";

const ANSWER = 3;
/** Long after a process without work would have ended. */
const LATER_MS = 500;

if (process.argv[2] === "waits") process.once("message", () => process.exit(ANSWER));
else {
  const child = fork(import.meta.filename, ["waits"]);
  child.once("exit", (code) => process.exit(code ?? 1));
  setTimeout(() => child.connected && child.send("work"), LATER_MS);
}
