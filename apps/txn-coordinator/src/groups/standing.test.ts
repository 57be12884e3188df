import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock } from "@concord/adapter-node-runtime";
import { foundingList, MemberLists } from "@concord/ownership";
import { ScriptedMembership } from "@concord/port-contracts";
import { silentLog, silentMetrics } from "@concord/runtime";
import { Standing } from "./standing.ts";

test("[TX14] standing: a coordinator is called gone and works again, this one is lost: each verdict is counted by its subject", async () => {
  const counted: string[] = [];
  const membership = new ScriptedMembership();
  const standing = new Standing({
    lists: new MemberLists({
      configured: foundingList(["c0", "c1", "c2"].map((name) => ({ name, address: `${name}:1`, datacenter: name }))),
      nodeName: "c0",
      read: async () => undefined,
      noun: "coordinators",
      addCommand: "",
      clock: nodeClock,
      log: silentLog,
      membership: undefined,
      onFailed: assert.fail,
    }),
    nodeName: "c0",
    masters: "together",
    membership,
    clock: nodeClock,
    log: silentLog,
    metrics: {
      ...silentMetrics,
      count: (name, value, labels) => void counted.push(`${name} ${labels?.["about"]} ${labels?.["verdict"]} ${value}`),
    },
  });
  await standing.listed(new AbortController().signal);
  await standing.start();
  membership.about(2, "gone");
  membership.about(2, "works");
  membership.self("lost");
  assert.deepEqual(
    counted,
    ["c0 works", "c2 gone", "c2 works", "c0 lost"].map((verdict) => `coordinator_verdicts_total ${verdict} 1`),
  );
  await standing.stop();
});
