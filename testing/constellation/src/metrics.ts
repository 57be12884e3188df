// What a node's admin page says of its metrics.
const TIMEOUT_MS = 5_000;

export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of exactly this name in the text of a /metrics page. */
export function metricSamples(page: string, name: string): MetricSample[] {
  return page.split("\n").flatMap((line) => {
    if (!line.startsWith(`${name}{`) && !line.startsWith(`${name} `)) return [];
    const at = line.lastIndexOf(" ");
    const labels = [...line.slice(name.length, at).matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key!, value!] as const);
    return [{ labels: Object.fromEntries(labels), value: Number(line.slice(at + 1)) }];
  });
}

/** The page of the node at this admin address. */
export async function metricsPage(adminAddress: string): Promise<string> {
  const response = await fetch(`http://${adminAddress}/metrics`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  return await response.text();
}
