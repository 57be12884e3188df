// Loaded into each test process by run-tests.ts: on SIGALRM it prints what keeps the process alive.
import { writeSync } from "node:fs";

/** Enough to find the cause; a load test may hold thousands. */
const LINES_MAX = 40;

function describe({ type, pid, remoteEndpoint, localEndpoint, filename, repeat }) {
  const details = [
    pid && `pid ${pid}`,
    localEndpoint && `${localEndpoint.ip4 ?? localEndpoint.ip6 ?? ""}:${localEndpoint.port}`,
    remoteEndpoint && `to ${remoteEndpoint.ip4 ?? remoteEndpoint.ip6 ?? ""}:${remoteEndpoint.port}`,
    filename,
    repeat > 0 && `every ${repeat} ms`,
  ];
  return [type, ...details.filter(Boolean)].join(" ");
}

process.on("SIGALRM", () => {
  const held = process.report.getReport().libuv.filter((handle) => handle.is_active && handle.is_referenced);
  const resources = Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (name) => name));
  const lines = [...resources.map(([name, all]) => `${name} x ${all.length}`), ...held.map(describe)];
  writeSync(
    2,
    `open in ${process.argv[1]}:\n${lines
      .slice(0, LINES_MAX)
      .map((line) => `  ${line}\n`)
      .join("")}`,
  );
});
