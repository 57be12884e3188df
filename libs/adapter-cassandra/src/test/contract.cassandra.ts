// The port's promises on a real node: `npm run test:engines`.
import { test } from "node:test";
import { storageBackendContract } from "@concord/port-contracts";
import { backendOn, newKeyspace } from "./real-cassandra.ts";

const keyspace = newKeyspace();

storageBackendContract(
  (name, run) => test(name, run),
  async () => {
    const made = await keyspace;
    await made.empty();
    return { backend: backendOn(made), reopen: async () => backendOn(made) };
  },
);
