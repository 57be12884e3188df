// Figures by source: who sends what again, with a bounded number of names.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewMessage } from "@concord/ports";
import { silentMetrics } from "@concord/runtime";
import { SOURCE_FIGURES_MAX } from "./limits.ts";
import { SOURCE_HEADER } from "./origin.ts";
import { SourceFigures } from "./source-figures.ts";
import { fixture, message, processed, utf8 } from "./test/fixture.ts";

function counting() {
  const figures = new Map<string, number>();
  const count = (name: string, value = 1, labels: Readonly<Record<string, string>> = {}): void => {
    if (name !== "dedup_source_messages_total") return;
    const key = `${labels["source"]} ${labels["verdict"]}`;
    figures.set(key, (figures.get(key) ?? 0) + value);
  };
  return { figures, metrics: { ...silentMetrics, count } };
}

function of(source: string | Uint8Array | undefined, id: string | undefined): NewMessage {
  const { headers, ...more } = message(id, "value");
  const bytes = typeof source === "string" ? utf8(source) : source;
  return {
    ...more,
    headers: [...(bytes === undefined ? [] : [{ name: SOURCE_HEADER, value: bytes }]), ...headers],
  };
}

test("[DDD13] figures: delivered, duplicates and dead letters by source; of no source, and of names that are none", async () => {
  const { figures, metrics } = counting();
  const { log, worker } = fixture({ metrics, worker: { missingId: "dead-letter" } });
  await worker.start();
  await log.append(0, [of("bills", "1"), of("bills", "1"), of("shop", "1"), of(undefined, "1"), of("", "1"), of("shop", undefined)]);
  await log.append(0, [of(Uint8Array.of(1, 2), "1"), of("a{b}", "1"), of("x".repeat(65), "1")]);
  await processed({ worker });
  await worker.stop();
  assert.deepEqual(Object.fromEntries(figures), {
    "(none) accepted": 1,
    "(none) duplicate": 1,
    "(others) accepted": 2,
    "(others) dead-lettered": 1,
    "bills accepted": 1,
    "bills duplicate": 1,
    "shop accepted": 1,
    "shop dead-lettered": 1,
  });
});

test("figures: as many sources as have figures of their own, one more, and those of the configuration: the last ones that come are counted together", () => {
  const { figures, metrics } = counting();
  const sources = new SourceFigures(metrics, ["billing", ""]);
  const once = { accepted: 1, duplicate: 0, "dead-lettered": 0 };
  const names = Array.from({ length: SOURCE_FIGURES_MAX + 1 }, (_, at) => `source-${at}`);
  sources.add(new Map(names.map((name) => [name, once])));
  sources.add(new Map([...names.slice(0, 1), "billing", "late"].map((name) => [name, once])));
  assert.equal(figures.size, SOURCE_FIGURES_MAX + 1, "with that of the others");
  const wanted = ["billing", "source-0", "(others)"].map((name) => figures.get(`${name} accepted`));
  assert.deepEqual(wanted, [1, 2, 3]);
});
