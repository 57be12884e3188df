// The port's promises on real brokers: `npm run test:engines`.
import { test } from "node:test";
import { messageLogContract } from "@concord/port-contracts";
import { newTopics, openOn } from "./real-kafka.ts";

messageLogContract(test, async () => {
  const topics = await newTopics();
  return { log: await openOn(topics), restart: () => openOn(topics) };
});
