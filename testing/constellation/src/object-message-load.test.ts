// A load whose nodes are gone, as after a test that failed and stopped its constellation.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { ConcordClient } from "@concord/client";
import type { Constellation } from "./constellation.ts";
import { ObjectMessageLoad } from "./object-message-load.ts";

const KEY = { accessKeyId: "KEYID", secretAccessKey: "secret-of-key", tenant: "main" };

test("a load that was closed without its stop: what is under way is aborted and its loops end", async (context) => {
  let isSilent = false;
  const asked = Promise.withResolvers<void>();
  const server: Server = createServer((request, response) => {
    request.resume();
    if (isSilent) asked.resolve();
    else response.end();
    isSilent = true;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => (server.closeAllConnections(), server.close()));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const constellation = { s3Endpoints: [endpoint], tokens: { accessKeys: [KEY] } } as unknown as Constellation;
  const ingest = (): Promise<never> => Promise.reject(new Error("no worker answers"));
  const db = { messages: { ingest } } as unknown as ConcordClient;
  const load = await ObjectMessageLoad.start({ constellation, db, pauseMs: 0 });
  await asked.promise;
  await load.close();
  assert.equal(load.objects, 0);
  assert.equal(load.messages, 0);
});
