// Stands for an app in this tool's tests: says that it is ready, writes its log, drains on SIGTERM. FAKE_EXIT = a code to end with; FAKE_WAITS_FOR =
// a file that it waits for before it is ready; FAKE_HANGS: it stops before it listens.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

const file = process.argv[process.argv.indexOf("--config") + 1]!;
const config = JSON.parse(readFileSync(file, "utf8")) as { nodeName: string; adminAddress: string; note?: string };
console.log(JSON.stringify({ node: config.nodeName, note: config.note, environment: process.env["CONCORD_NOTE"] }));

const exitCode = process.env["FAKE_EXIT"];
if (exitCode !== undefined) {
  console.log("the disk is on fire");
  process.exit(Number(exitCode));
}
if (process.env["FAKE_HANGS"] !== undefined) process.kill(process.pid, "SIGSTOP");
const awaited = process.env["FAKE_WAITS_FOR"];
const server = createServer((_, response) => {
  const isReady = awaited === undefined || existsSync(awaited);
  response.writeHead(isReady ? 200 : 503).end(isReady ? "ready\n" : `not ready: the start waits for ${awaited}\n`);
});
server.listen(Number(config.adminAddress.split(":")[1]), "127.0.0.1");
process.once("SIGTERM", () => {
  console.log("drained");
  server.close();
  server.closeAllConnections();
});
