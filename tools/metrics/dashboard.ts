// The dashboard for Grafana: an overview, then every metric in the row of its area.
import type { MetricDefinition } from "@concord/runtime";
import type { Area } from "./areas.ts";

interface Target {
  readonly expr: string;
  readonly legendFormat: string;
}

interface Chart {
  readonly title: string;
  readonly description?: string;
  readonly unit: string;
  readonly targets: readonly Target[];
}

const COLUMNS = 24;
const WIDTH = 8;
const HEIGHT = 7;
const DATASOURCE = { type: "prometheus", uid: "${datasource}" };
const HERE = 'instance=~"$instance"';
const RATE = "[$__rate_interval]";

const rate = (name: string, by: readonly string[], matchers = HERE): string =>
  `sum by (${by.join(", ")}) (rate(${name}{${matchers}}${RATE}))`;
const quantile = (share: number, name: string, by: readonly string[] = []): string =>
  `histogram_quantile(${share}, ${rate(`${name}_bucket`, ["le", ...by])})`;
const legend = (labels: readonly string[]): string => labels.map((label) => `{{${label}}}`).join(" ");

const OVERVIEW: readonly Chart[] = [
  chart("Calls a second, by outcome", "ops", rate("rpc_server_duration_seconds_count", ["code"]), ["code"]),
  chart("Calls, p99 by method", "s", quantile(0.99, "rpc_server_duration_seconds", ["method"]), ["method"]),
  chart("Calls refused a second", "ops", rate("rpc_server_refused_total", ["reason"]), ["reason"]),
  chart("Open transactions", "short", `sum by (instance) (txn_open_transactions{${HERE}})`, ["instance"]),
  chart("Transactions committed a second", "ops", rate("txn_flush_transactions_sum", ["instance"]), ["instance"]),
  chart("Transactions aborted a second", "ops", rate("txn_aborts_total", ["code"]), ["code"]),
  chart("S3 requests a second, by outcome", "ops", rate("s3_requests_total", ["code"]), ["code"]),
  chart("S3, p99 by operation", "s", quantile(0.99, "s3_request_seconds", ["operation"]), ["operation"]),
  chart("Bytes of objects sent a second", "Bps", rate("s3_sent_bytes_total", ["instance"]), ["instance"]),
  chart("Messages a second, by result", "ops", rate("dedup_messages_total", ["verdict"]), ["verdict"]),
  chart("Messages not processed yet", "short", `dedup_partition_lag{${HERE}}`, ["instance", "partition"]),
  chart("Peers within reach", "short", `ring_peer_reachable{${HERE}}`, ["instance", "peer"]),
  chart("Disk writes, p99", "s", quantile(0.99, "engine_sync_seconds", ["instance"]), ["instance"]),
  chart("Free disk", "bytes", `disk_free_bytes{${HERE}}`, ["instance"]),
  chart("Damage found", "short", `increase(concord_journal_damage_total{${HERE}}${RATE})`, ["instance"]),
];

function chart(title: string, unit: string, expr: string, labels: readonly string[]): Chart {
  return { title, unit, targets: [{ expr, legendFormat: legend(labels) }] };
}

export function dashboardText(areas: readonly Area[]): string {
  const rows = [{ title: "Overview", charts: OVERVIEW }, ...areas.map(({ title, metrics }) => ({ title, charts: metrics.map(chartOf) }))];
  let id = 0;
  let y = 0;
  const panels = rows.flatMap(({ title, charts }, at) => {
    const row = { id: ++id, type: "row", title, collapsed: at > 0, gridPos: { h: 1, w: COLUMNS, x: 0, y: y++ } };
    const inside = charts.map((each, index) => panelOf(each, ++id, index, y));
    if (at > 0) return [{ ...row, panels: inside }];
    y += HEIGHT * Math.ceil((charts.length * WIDTH) / COLUMNS);
    return [{ ...row, panels: [] }, ...inside];
  });
  const dashboard = {
    uid: "concord",
    title: "Concord",
    description: "Made by node tools/metrics/main.ts of the definitions of metrics.",
    tags: ["concord"],
    schemaVersion: 39,
    editable: true,
    refresh: "10s",
    time: { from: "now-1h", to: "now" },
    templating: { list: [datasourceVariable(), instanceVariable()] },
    panels,
  };
  return `${JSON.stringify(dashboard, undefined, 1)}\n`;
}

function chartOf({ name, kind, help, labels }: MetricDefinition): Chart {
  const about = { title: name, description: help };
  const all = ["instance", ...labels];
  switch (kind) {
    case "counter":
      return { ...about, unit: name.includes("bytes") ? "Bps" : "ops", targets: [{ expr: rate(name, all), legendFormat: legend(all) }] };
    case "gauge":
      return { ...about, unit: unitOf(name), targets: [{ expr: gaugeOf(name), legendFormat: legend(all) }] };
    case "histogram":
      return {
        ...about,
        unit: unitOf(name),
        targets: [0.5, 0.99].map((share) => ({
          expr: quantile(share, name, labels),
          legendFormat: `p${share * 100} ${legend(labels)}`.trim(),
        })),
      };
  }
}

/** Points in time as their age. */
function gaugeOf(name: string): string {
  const series = `${name}{${HERE}}`;
  return name.endsWith("_timestamp_seconds") ? `time() - ${series}` : series;
}

function unitOf(name: string): string {
  if (name.endsWith("_seconds")) return "s";
  return name.endsWith("_bytes") ? "bytes" : "short";
}

function panelOf({ title, description, unit, targets }: Chart, id: number, index: number, top: number): object {
  const perRow = COLUMNS / WIDTH;
  return {
    id,
    type: "timeseries",
    title,
    ...(description === undefined ? {} : { description }),
    datasource: DATASOURCE,
    gridPos: { h: HEIGHT, w: WIDTH, x: (index % perRow) * WIDTH, y: top + Math.floor(index / perRow) * HEIGHT },
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options: { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: targets.map((target, at) => ({ ...target, refId: "AB"[at], datasource: DATASOURCE })),
  };
}

function datasourceVariable(): object {
  return { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" };
}

function instanceVariable(): object {
  return {
    name: "instance",
    type: "query",
    label: "Instance",
    datasource: DATASOURCE,
    query: { query: "label_values(concord_build_info, instance)", refId: "instances" },
    refresh: 2,
    multi: true,
    includeAll: true,
    allValue: ".*",
    current: { text: "All", value: "$__all" },
  };
}
