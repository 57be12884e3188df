// Goodput of bulk transactions against the load that is offered, on simulated machines whose CPU takes time: `node
// testing/simulate/src/overload-curve.ts [--seconds N] [--seed N]` prints a table; one seed, equal output each time.
import { parseArgs } from "node:util";
import { measureOverload, type OverloadLevel } from "./overload.ts";

const { values } = parseArgs({ options: { seconds: { type: "string", default: "5" }, seed: { type: "string", default: "1" } } });

const line = (cells: readonly string[]): string => cells.map((cell) => cell.padStart(14)).join("");
console.log(
  line(["load", "offered/s", "goodput/s", "refused", "too late", "small p50 ms", "small p99 ms", "small failed", "normal after s"]),
);
for (const factor of [1, 2, 5, 10]) {
  const level: OverloadLevel = await measureOverload(`overload/${values.seed}`, factor, Number(values.seconds));
  const { offeredPerSecond, goodputPerSecond, refused, late, smallP50Ms, smallP99Ms, smallFailed, normalAfterMs } = level;
  const figures = [offeredPerSecond, goodputPerSecond].map((figure) => figure.toFixed(1));
  const rest = [refused, late, smallP50Ms.toFixed(1), smallP99Ms.toFixed(1), smallFailed, (normalAfterMs / 1000).toFixed(1)].map(String);
  console.log(line([`${factor}x`, ...figures, ...rest]));
}
