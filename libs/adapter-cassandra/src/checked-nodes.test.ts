import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, silentMetrics, type Clock, type ConcordError } from "@concord/runtime";
import { CheckedNodes } from "./checked-nodes.ts";
import { CHECK_AGAIN_MS } from "./limits.ts";

const GOOD: Readonly<Record<string, string>> = {
  paxos_variant: "v2",
  commitlog_sync: "group",
  cas_contention_timeout: "1s",
  max_mutation_size: "4096KiB",
  max_hint_window: "3h",
};

/** Three nodes, their settings in the hands of the test. */
function cluster() {
  const addresses = ["a", "b", "c"];
  const settings = new Map(addresses.map((address) => [address, { ...GOOD }]));
  const down = new Set<string>();
  const timers: { readonly delayMs: number; readonly action: () => void }[] = [];
  const clock: Pick<Clock, "setTimer" | "monotonicMs"> = {
    monotonicMs: () => 0,
    setTimer: (delayMs, action) => {
      const timer = { delayMs, action };
      timers.push(timer);
      return { cancel: () => void (timers.includes(timer) && timers.splice(timers.indexOf(timer), 1)) };
    },
  };
  const failures: ConcordError[] = [];
  let avoided: string[] = [];
  const checked = new CheckedNodes({
    session: {
      nodes: () => addresses.map((address) => ({ address, datacenter: "dc1", isUp: !down.has(address) })),
      ask: async (address, query) => {
        if (query.includes("release_version")) return [{ release_version: "5.0.9" }];
        return Object.entries(settings.get(address)!).map(([name, value]) => ({ name, value }));
      },
      avoid: (now) => (avoided = [...now]),
    },
    clock: clock as Clock,
    log: silentLog,
    metrics: silentMetrics,
    onFailed: (cause) => failures.push(cause),
  });
  return { checked, settings, down, timers, failures, avoided: () => avoided };
}

test("[TXC3] nodes: one comes back with a wrong setting: it is avoided, nothing ends; asked again until it is right", async () => {
  const { checked, settings, timers, failures, avoided } = cluster();
  await checked.checkAll();
  settings.get("b")!["commitlog_sync"] = "periodic";
  await checked.cameUp("b");
  assert.deepEqual([avoided(), failures], [["b"], []]);
  assert.deepEqual(
    timers.map(({ delayMs }) => delayMs),
    [CHECK_AGAIN_MS],
  );
  timers.shift()!.action();
  await turn();
  assert.deepEqual([avoided(), timers.length], [["b"], 1]);
  settings.get("b")!["commitlog_sync"] = "group";
  timers.shift()!.action();
  await turn();
  assert.deepEqual([avoided(), failures], [[], []]);
});

test("[TXC3] nodes: a second one is wrong: a quorum could have no right replica: the process ends, with the setting's name", async () => {
  const { checked, settings, failures } = cluster();
  await checked.checkAll();
  for (const address of ["a", "b"]) {
    settings.get(address)!["commitlog_sync"] = "periodic";
    await checked.cameUp(address);
  }
  assert.equal(failures.length, 1);
  assert.match(failures[0]!.message, /node b [^]*commitlog_sync is periodic/);
});

test("[TXC3] nodes: the first wrong one is down when another comes back wrong: one acknowledges, nothing ends", async () => {
  const { checked, settings, down, failures, avoided } = cluster();
  for (const address of ["a", "b"]) settings.get(address)!["paxos_variant"] = "v1";
  await checked.cameUp("a");
  down.add("a");
  await checked.cameUp("b");
  assert.deepEqual([failures, avoided()], [[], ["a", "b"]]);
});

test("[TXC3] nodes: no right one is up: the process ends", async () => {
  const { checked, settings, down, failures } = cluster();
  for (const address of ["a", "b"]) down.add(address);
  settings.get("c")!["paxos_variant"] = "v1";
  await checked.cameUp("c");
  assert.equal(failures.length, 1);
});

test("[TXC3] nodes: stopped: no timer stays, a late answer ends nothing", async () => {
  const { checked, settings, timers, failures } = cluster();
  settings.get("b")!["paxos_variant"] = "v1";
  await checked.cameUp("b");
  checked.stop();
  assert.equal(timers.length, 0);
  await checked.cameUp("b");
  assert.deepEqual([timers.length, failures], [0, []]);
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
