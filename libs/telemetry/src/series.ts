/** Series of a metric in memory, and their lines in the text format of Prometheus. A report is an addition; texts are made at a scrape. */
import { assert } from "@concord/runtime";

export interface Series {
  report(value: number): void;
  /** `name` is the metric's; each line ends in a newline. */
  lines(name: string): string;
}

/** A counter: reports add up. */
export class Sum implements Series {
  readonly #labels: string;
  #value = 0;

  constructor(labels: string) {
    this.#labels = labels;
  }

  report(value: number): void {
    assert(value >= 0, "a counter never falls");
    this.#value += value;
  }

  lines(name: string): string {
    return line(name, this.#labels, this.#value);
  }
}

/** A gauge: the last report counts. */
export class Last implements Series {
  readonly #labels: string;
  #value = 0;

  constructor(labels: string) {
    this.#labels = labels;
  }

  report(value: number): void {
    this.#value = value;
  }

  lines(name: string): string {
    return line(name, this.#labels, this.#value);
  }
}

/** A histogram. */
export class Distribution implements Series {
  readonly #labels: string;
  readonly #bounds: readonly number[];
  /** Of each bound the values above the one before it; at last those above all. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(labels: string, bounds: readonly number[]) {
    this.#labels = labels;
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  report(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at += 1;
    this.#counts[at]! += 1;
    this.#sum += value;
  }

  lines(name: string): string {
    let text = "";
    let below = 0;
    for (const [at, count] of this.#counts.entries()) {
      below += count;
      const bound = labelText("le", at < this.#bounds.length ? String(this.#bounds[at]) : "+Inf");
      text += line(`${name}_bucket`, this.#labels === "" ? bound : `${bound},${this.#labels}`, below);
    }
    return `${text}${line(`${name}_sum`, this.#labels, this.#sum)}${line(`${name}_count`, this.#labels, below)}`;
  }
}

/** `name="value"` */
export function labelText(name: string, value: string): string {
  return `${name}="${value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"')}"`;
}

/** The two lines before the series of a metric. */
export function headText(name: string, kind: string, help: string): string {
  return `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${kind}\n`;
}

function line(name: string, labels: string, value: number): string {
  const shown = Number.isFinite(value) ? String(value) : Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
  return `${name}${labels === "" ? "" : `{${labels}}`} ${shown}\n`;
}
