// `node tools/metrics/main.ts`: writes what is made of the definitions of metrics and alerts: reference, runbooks, rules, dashboard.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { ALERTS } from "./alerts.ts";
import { ALL_METRICS, areasOf } from "./areas.ts";
import { dashboardText } from "./dashboard.ts";
import { referenceText, rulesText, RUNBOOKS, runbookText } from "./pages.ts";

export const ROOT = resolve(import.meta.dirname, "../..");

/** Text of every made file, by its path. */
export function madeFiles(): ReadonlyMap<string, string> {
  const areas = areasOf(ALL_METRICS);
  return new Map([
    ["docs/metrics.md", referenceText(areas, ALERTS)],
    ...ALERTS.map((alert): [string, string] => [`${RUNBOOKS}${alert.name}.md`, runbookText(alert)]),
    ["deploy/helm/concord/files/alerts.yaml", rulesText(ALERTS)],
    ["deploy/helm/concord/files/dashboard.json", dashboardText(areas)],
  ]);
}

if (process.argv[1] === import.meta.filename) {
  rmSync(join(ROOT, RUNBOOKS), { recursive: true, force: true });
  for (const [path, text] of madeFiles()) {
    mkdirSync(join(ROOT, dirname(path)), { recursive: true });
    writeFileSync(join(ROOT, path), text);
  }
  console.log(`${ALL_METRICS.length} metrics, ${ALERTS.length} alerts`);
}
