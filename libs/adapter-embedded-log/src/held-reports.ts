import { silentLog, silentMetrics, type Log, type LogFields, type Metrics } from "@concord/runtime";

/**
 * A log and metrics that keep what they get until it is released. A process that was paused while it took a partition over may find its folder
 * renamed and empty, which looks like damage: only an owner reports what it found.
 */
export class HeldReports {
  readonly log: Log;
  readonly metrics: Metrics;
  #held: (() => void)[] | undefined = [];

  constructor({ log = silentLog, metrics = silentMetrics }: { readonly log?: Log | undefined; readonly metrics?: Metrics | undefined }) {
    const line =
      (level: keyof Log) =>
      (message: string, fields?: LogFields): void =>
        this.#report(() => log[level](message, fields));
    this.log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
    this.metrics = {
      count: (...counted) => this.#report(() => metrics.count(...counted)),
      gauge: (...measured) => this.#report(() => metrics.gauge(...measured)),
      observe: (...observed) => this.#report(() => metrics.observe(...observed)),
    };
  }

  /** Passes the kept reports on, in their order; later ones go on at once. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const report of held) report();
  }

  #report(report: () => void): void {
    if (this.#held === undefined) report();
    else this.#held.push(report);
  }
}
