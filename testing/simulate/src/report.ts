/** What one seed of one scenario showed. Plain data: it travels between processes. */
export interface SeedReport {
  readonly scenario: string;
  readonly seed: number;
  readonly simulatedMs: number;
  readonly wallMs: number;
  readonly events: number;
  /** Hash of the whole trace: equal for equal seeds. */
  readonly digest: string;
  /** Transactions or batches by the outcome their client got. */
  readonly outcomes: { readonly ok: number; readonly fail: number; readonly info: number };
  /** Faults injected, failpoints passed, messages lost, ... */
  readonly counters: Readonly<Record<string, number>>;
  readonly violations: readonly { readonly atMs: number; readonly kind: string; readonly text: string }[];
}

export interface ScenarioTotals {
  seeds: number;
  simulatedMs: number;
  wallMs: number;
  ok: number;
  fail: number;
  info: number;
  readonly counters: Map<string, number>;
  readonly violating: SeedReport[];
}

export function emptyTotals(): ScenarioTotals {
  return { seeds: 0, simulatedMs: 0, wallMs: 0, ok: 0, fail: 0, info: 0, counters: new Map(), violating: [] };
}

export function addReport(totals: ScenarioTotals, report: SeedReport): void {
  totals.seeds += 1;
  totals.simulatedMs += report.simulatedMs;
  totals.wallMs += report.wallMs;
  totals.ok += report.outcomes.ok;
  totals.fail += report.outcomes.fail;
  totals.info += report.outcomes.info;
  for (const [name, value] of Object.entries(report.counters)) totals.counters.set(name, (totals.counters.get(name) ?? 0) + value);
  if (report.violations.length > 0) totals.violating.push(report);
}

export function describeTotals(name: string, totals: ScenarioTotals): string {
  const hours = (totals.simulatedMs / 3_600_000).toFixed(2);
  const speed = totals.wallMs === 0 ? "" : `, ${Math.round(totals.simulatedMs / totals.wallMs)} x real time per process`;
  const lines = [
    `${name}: ${totals.seeds} seeds, ${hours} simulated hours${speed}, violations in ${totals.violating.length} seeds`,
    `  outcomes: ${totals.ok} acknowledged, ${totals.fail} failed, ${totals.info} indeterminate`,
    `  faults: ${group(totals.counters, "fault:")}`,
    `  situations: ${group(totals.counters, "sim:")}`,
    `  failpoints passed: ${group(totals.counters, "point:")}`,
    `  crashed at: ${group(totals.counters, "crashed-at:")}`,
  ];
  return lines.join("\n");
}

export function describeViolations(report: SeedReport, shown = 5): string {
  const lines = report.violations.slice(0, shown).map(({ atMs, kind, text }) => `  ${(atMs / 1000).toFixed(3)} s ${kind}: ${text}`);
  if (report.violations.length > shown) lines.push(`  ... and ${report.violations.length - shown} more`);
  lines.push(`  replay: npm run simulate -- --replay ${report.seed} --scenario ${report.scenario}`);
  return [`VIOLATION ${report.scenario} seed ${report.seed}`, ...lines].join("\n");
}

function group(counters: ReadonlyMap<string, number>, prefix: string): string {
  const named = [...counters].filter(([name]) => name.startsWith(prefix)).sort(([left], [right]) => left.localeCompare(right));
  if (named.length === 0) return "none";
  return named.map(([name, value]) => `${name.slice(prefix.length)} ${value}`).join(", ");
}
