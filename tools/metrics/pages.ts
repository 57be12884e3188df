// Reference, runbooks and rules as text.
import type { Alert } from "./alerts.ts";
import { programsOf, type Area } from "./areas.ts";

const MADE_BY = "`node tools/metrics/main.ts`";
export const RUNBOOKS = "docs/alerts/";

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");

export function referenceText(areas: readonly Area[], alerts: readonly Alert[]): string {
  const count = areas.reduce((sum, { metrics }) => sum + metrics.length, 0);
  return `# Metrics

All ${count} metrics of \`/metrics\`, made of their definitions by ${MADE_BY}. The program \`concord\` reports all of them. Each program reports those of its process,
too, as every program on Node has them: \`process_*\` and \`nodejs_*\`. A histogram's unit is in its name.

${areas.map((area) => sectionText(area, alerts)).join("\n")}`;
}

function sectionText({ title, metrics }: Area, alerts: readonly Alert[]): string {
  const rows = metrics.map((metric) => {
    const labels = metric.labels.map((label) => `\`${label}\``).join(", ");
    const programs = programsOf(metric).join(", ") || "concord";
    const used = alerts.filter(({ expr }) => metricNames(expr).includes(metric.name));
    const links = used.map(({ name }) => `[${name}](alerts/${name}.md)`).join(", ");
    return `| \`${metric.name}\` | ${metric.kind} | ${labels} | ${cell(metric.help)} | ${programs} | ${links} |\n`;
  });
  return `## ${title}\n\n| metric | kind | labels | meaning | programs | alerts |\n|---|---|---|---|---|---|\n${rows.join("")}`;
}

/** Names of metrics in an expression; those of histograms without their suffix. */
export function metricNames(expr: string): readonly string[] {
  return [...expr.matchAll(/\b[a-z0-9]+(?:_[a-z0-9]+)+\b(?!\s*\()/g)].map(([name]) => name.replace(/_(?:bucket|sum|count)$/, ""));
}

export function runbookText(alert: Alert): string {
  const metrics = [...new Set(metricNames(alert.expr))].map((name) => `\`${name}\``).join(", ");
  return `# ${alert.name}

${alert.summary}.

| | |
|---|---|
| severity | ${alert.severity} |
| fires when | \`${cell(alert.expr)}\` for ${alert.for} |
| metrics | ${metrics} ([all](../metrics.md)) |

## Effect

${alert.effect}

## What to do

${alert.steps.map((step, at) => `${at + 1}. ${step}`).join("\n")}

Made by ${MADE_BY}; other cases: [docs/operations.md](../operations.md).
`;
}

/** A file of rules as Prometheus reads it. */
export function rulesText(alerts: readonly Alert[]): string {
  const rules = alerts.map(
    ({ name, expr, for: holds, severity, summary }) => `      - alert: ${name}
        expr: ${JSON.stringify(expr)}
        for: ${holds}
        labels: { severity: ${severity} }
        annotations:
          summary: ${JSON.stringify(summary)}
          runbook_url: ${JSON.stringify(`${RUNBOOKS}${name}.md`)}
`,
  );
  return `# Made by node tools/metrics/main.ts. For rule_files of Prometheus as it is; the chart puts it into a PrometheusRule.
groups:
  - name: concord
    rules:
${rules.join("")}`;
}
