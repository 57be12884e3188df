import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { test } from "node:test";
import { silentLog, type MetricDefinition } from "@concord/runtime";
import { createLog, createMetrics, startAdmin, type LogLevel } from "./index.ts";

const DEFINITIONS: readonly MetricDefinition[] = [
  { name: "calls_total", kind: "counter", help: "Calls.", labels: ["method"] },
  { name: "depth", kind: "gauge", help: "Depth.", labels: [] },
  { name: "wait_seconds", kind: "histogram", help: "Waiting.", labels: [] },
  { name: "size_bytes", kind: "histogram", help: "Sizes.", labels: ["kind"], buckets: [10, 100] },
];

function linesOf(level: LogLevel, write: (log: ReturnType<typeof createLog>) => void): Record<string, unknown>[] {
  const lines: string[] = [];
  write(createLog({ name: "test", level, destination: { write: (line: string) => void lines.push(line) } }));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

test("log: a line: JSON with level, time, name and 64-bit numbers as decimal texts", () => {
  const [line] = linesOf("info", (log) => log.info("hello", { epoch: 2n ** 63n, table: "photos", missing: undefined }));
  assert.deepEqual(
    [line!["level"], line!["message"], line!["name"], line!["epoch"], line!["table"]],
    ["info", "hello", "test", "9223372036854775808", "photos"],
  );
  assert.match(line!["time"] as string, /^\d{4}-\d\d-\d\dT.*Z$/);
});

test("log: levels: below the chosen one nothing is written", () => {
  const all = (log: ReturnType<typeof createLog>): void => {
    log.debug("1");
    log.info("2");
    log.warn("3");
    log.error("4");
  };
  assert.deepEqual(linesOf("debug", all).length, 4);
  assert.deepEqual(
    linesOf("warn", all).map((line) => line["message"]),
    ["3", "4"],
  );
  assert.deepEqual(linesOf("silent", all), []);
});

test(
  "log: standard output takes nothing, as on a full disk: the program goes on, what waits is bounded",
  { skip: process.platform !== "linux" },
  () => {
    const index = new URL("index.ts", import.meta.url).href;
    const script = `
      import { createLog } from ${JSON.stringify(index)};
      const log = createLog({ name: "full", level: "info" });
      for (let line = 0; line < 4_000; line += 1) log.info("x".repeat(1_000));
      console.error(process.memoryUsage().rss < 512 * 1024 * 1024 ? "bounded" : "grew");
    `;
    const full = openSync("/dev/full", "w");
    const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", full, "pipe"],
      encoding: "utf8",
    });
    closeSync(full);
    assert.deepEqual([status, stderr.trim()], [0, "bounded"]);
  },
);

test("[SEC4] log: fields with secrets or our own names: hidden, renamed", () => {
  const [line] = linesOf("info", (log) =>
    log.info("x", { clientToken: "hunter2", authorization: "hunter2", level: "mine", message: "mine" }),
  );
  assert.doesNotMatch(JSON.stringify(line), /hunter2/);
  assert.deepEqual([line!["level"], line!["level_"], line!["message"], line!["message_"]], ["info", "mine", "x", "mine"]);
});

test("metrics: each kind: shown with its labels and buckets", async () => {
  const metrics = createMetrics({ definitions: DEFINITIONS });
  const read = Object.freeze({ method: "Read" });
  metrics.count("calls_total", 1, read);
  metrics.count("calls_total", 2, read);
  metrics.count("calls_total", undefined, { method: "Read" });
  metrics.gauge("depth", 7);
  metrics.observe("wait_seconds", 0.002);
  metrics.observe("size_bytes", 50, { kind: "row" });
  const text = await metrics.text();
  for (const line of [
    'calls_total{method="Read"} 4',
    "depth 7",
    'wait_seconds_bucket{le="0.0025"} 1',
    'wait_seconds_bucket{le="0.001"} 0',
    'size_bytes_bucket{le="100",kind="row"} 1',
  ]) {
    assert.ok(text.includes(line), `${line} in\n${text}`);
  }
});

test("metrics: a histogram: values at, between and above its bounds, each bucket with those below it", async () => {
  const metrics = createMetrics({ definitions: DEFINITIONS });
  for (const value of [1, 10, 11, 100, 101]) metrics.observe("size_bytes", value, { kind: "row" });
  const text = await metrics.text();
  const lines = [
    "# HELP size_bytes Sizes.",
    "# TYPE size_bytes histogram",
    'size_bytes_bucket{le="10",kind="row"} 2',
    'size_bytes_bucket{le="100",kind="row"} 4',
    'size_bytes_bucket{le="+Inf",kind="row"} 5',
    'size_bytes_sum{kind="row"} 223',
    'size_bytes_count{kind="row"} 5',
  ];
  assert.ok(text.includes(`${lines.join("\n")}\n`), text);
});

test("metrics: before the first report: series without labels are 0, others are not there", async () => {
  const text = await createMetrics({ definitions: DEFINITIONS }).text();
  assert.ok(text.includes("depth 0\n") && text.includes('wait_seconds_bucket{le="+Inf"} 0\n'), text);
  assert.ok(text.includes("# TYPE calls_total counter\n") && !text.includes("calls_total{"), text);
});

test("metrics: label values with quotes, backslashes and line ends: escaped", async () => {
  const metrics = createMetrics({ definitions: DEFINITIONS });
  metrics.count("calls_total", 1, { method: 'a"b\\c\nd' });
  assert.ok((await metrics.text()).includes('calls_total{method="a\\"b\\\\c\\nd"} 1\n'));
});

test("metrics: build: one gauge that is always 1, named by its labels", async () => {
  const text = await createMetrics({ definitions: [], build: { version: "0.1.0", commit: "abc", node: "v26.10.0" } }).text();
  assert.ok(text.includes('concord_build_info{version="0.1.0",commit="abc",node="v26.10.0"} 1\n'), text);
  assert.doesNotMatch(await createMetrics({ definitions: [] }).text(), /build_info/);
});

test("metrics: an unknown name, another kind or other labels: a failed assertion", () => {
  const metrics = createMetrics({ definitions: DEFINITIONS });
  const failed = { name: "ConcordError", code: "INTERNAL" };
  assert.throws(() => metrics.count("calls_totals", 1), failed);
  assert.throws(() => metrics.gauge("calls_total", 1, { method: "x" }), failed);
  assert.throws(() => metrics.count("calls_total"), failed);
  assert.throws(() => metrics.count("calls_total", 1, { verb: "x" }), failed);
  assert.throws(() => metrics.count("calls_total", -1, { method: "x" }), failed);
  assert.throws(() => createMetrics({ definitions: [DEFINITIONS[0]!, DEFINITIONS[0]!] }), failed);
});

test("metrics: of the process: event-loop delay, memory and descriptors among them", async () => {
  const text = await createMetrics({ definitions: [], process: true }).text();
  const names = ["nodejs_eventloop_lag_p99_seconds", "process_resident_memory_bytes"];
  // Read from /proc.
  if (process.platform === "linux") names.push("process_open_fds", "process_max_fds");
  for (const name of names) assert.match(text, new RegExp(`^${name} [1-9.]`, "m"), name);
});

test("[OPS4] admin: its three pages, those of the program, and nothing else", async (t) => {
  let ready = false;
  let problems: readonly string[] = [];
  const waits: string[] = [];
  const warnings: string[] = [];
  const metrics = createMetrics({ definitions: DEFINITIONS });
  metrics.gauge("depth", 3);
  const admin = await startAdmin({
    address: "127.0.0.1:0",
    metrics,
    ready: () => ready,
    problems: () => problems,
    waitsFor: () => waits,
    warnings: () => warnings,
    log: silentLog,
    pages: { "/replicas": async () => ({ behind: 0 }) },
  });
  t.after(() => admin.close());
  const get = async (path: string, method = "GET"): Promise<readonly [number, string]> => {
    const response = await fetch(`http://${admin.address}${path}`, { method });
    return [response.status, await response.text()];
  };
  assert.deepEqual(await get("/healthz"), [200, "ok\n"]);
  assert.deepEqual(await get("/readyz"), [503, "not ready\n"]);
  problems = ["rows are out", "transactions wait for rows"];
  assert.deepEqual(await get("/readyz"), [503, "not ready\nrows are out\ntransactions wait for rows\n"]);
  problems = [];
  waits.push("a peer", "the schema");
  assert.deepEqual(await get("/readyz"), [503, "not ready: the start waits for a peer; the schema\n"]);
  ready = true;
  assert.deepEqual(await get("/readyz?verbose"), [200, "ready\n"]);
  warnings.push("the clock is behind");
  assert.deepEqual(await get("/readyz"), [200, "ready\nwarning: the clock is behind\n"]);
  assert.match((await get("/metrics"))[1], /^depth 3$/m);
  assert.deepEqual(await get("/replicas"), [200, '{\n  "behind": 0\n}\n']);
  assert.equal((await get("/secrets"))[0], 404);
  assert.equal((await get("/constructor"))[0], 404);
  assert.equal((await get("/metrics", "POST"))[0], 405);
  assert.deepEqual(await get("/healthz", "HEAD"), [200, ""]);
  await admin.close();
  await assert.rejects(get("/healthz"));
});
