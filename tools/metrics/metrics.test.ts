import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ALERTS } from "./alerts.ts";
import { ALL_METRICS, areasOf } from "./areas.ts";
import { madeFiles, ROOT } from "./main.ts";
import { metricNames, RUNBOOKS } from "./pages.ts";

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
  readonly panels?: readonly Panel[];
}

const made = madeFiles();
const { panels } = JSON.parse(made.get("deploy/helm/concord/files/dashboard.json")!) as { panels: readonly Panel[] };
const everyPanel = panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
const charted = everyPanel.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const));
const alerted = ALERTS.map(({ name, expr }) => [name, expr] as const);
const byName = new Map(ALL_METRICS.map((metric) => [metric.name, metric]));
/** Labels that Prometheus and the format of histograms add. */
const ADDED_LABELS = ["instance", "le"];

test("metrics: a made file differs from its definitions: run node tools/metrics/main.ts", () => {
  for (const [path, text] of made) assert.equal(readFileSync(join(ROOT, path), "utf8"), text, path);
  const pages = globSync(`${RUNBOOKS}*`, { cwd: ROOT }).toSorted();
  assert.deepEqual(pages, [...made.keys()].filter((path) => path.startsWith(RUNBOOKS)).toSorted());
});

test("metrics: every metric is in the reference, in one area, and on the dashboard", () => {
  const inAreas = areasOf(ALL_METRICS).flatMap(({ metrics }) => metrics);
  assert.equal(inAreas.length, ALL_METRICS.length);
  const onDashboard = new Set(charted.flatMap(([, expr]) => metricNames(expr)));
  for (const { name } of ALL_METRICS) {
    assert.ok(made.get("docs/metrics.md")!.includes(`| \`${name}\` |`), name);
    assert.ok(onDashboard.has(name), name);
  }
  assert.equal(new Set(everyPanel.map(({ id }) => id)).size, everyPanel.length);
});

test("metrics: expressions of alerts and charts name metrics and labels that programs report", () => {
  for (const [where, expr] of [...alerted, ...charted]) {
    const names = metricNames(expr.replaceAll("$__rate_interval", "5m"));
    assert.ok(names.length > 0, where);
    const metrics = names.map((name) => byName.get(name) ?? assert.fail(`${where}: ${name} is no metric`));
    const known = new Set([...metrics.flatMap(({ labels }) => labels), ...ADDED_LABELS]);
    const matched = [...expr.matchAll(/([a-z_]+)\s*(?:=~|!~|!=|=)\s*"/g)].map((match) => match[1]!);
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap((match) => match[1]!.split(", "));
    for (const label of [...matched, ...grouped]) assert.ok(known.has(label), `${where}: ${label} is no label in ${expr}`);
  }
});

test("metrics: counters are read by their growth, histograms by a series that they have", () => {
  for (const [where, expr] of [...alerted, ...charted]) {
    for (const name of new Set(metricNames(expr.replaceAll("$__rate_interval", "5m")))) {
      const { kind } = byName.get(name)!;
      if (kind === "counter") assert.match(expr, new RegExp(`(rate|increase)\\(${name}\\b`), where);
      if (kind === "histogram") assert.match(expr, new RegExp(`rate\\(${name}_(bucket|sum|count)\\b`), where);
    }
  }
});
