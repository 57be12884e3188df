// The port's promises on real brokers, with and without transactions: `npm run test:engines`.
import { test } from "node:test";
import { messageLogContract } from "@concord/port-contracts";
import { newTopics, openOn } from "./real-kafka.ts";

for (const mode of ["transactional", "single-owner"] as const) {
  messageLogContract(
    (name, run) => test(`${mode}: ${name}`, run),
    async () => {
      const topics = await newTopics();
      return { log: await openOn(topics, { mode }), restart: () => openOn(topics, { mode }) };
    },
  );
}
