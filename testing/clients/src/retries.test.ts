// protos/retries.json, the service configuration for generic gRPC clients: it names methods there are, and none that must not be repeated.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as dedup from "@concord/protos-dedup";
import * as ids from "@concord/protos-ids";
import * as object from "@concord/protos-object";
import * as storage from "@concord/protos-storage";
import * as txn from "@concord/protos-txn";

interface MethodName {
  readonly service: string;
  readonly method?: string;
}

/** A repeat of these may do something twice, or over what another client did meanwhile; or it is no call of a client. */
const NEVER_REPEATED = [
  "concord.storage.v1.RowsService/Write",
  "concord.storage.v1.RowsService/Apply",
  "concord.storage.v1.BatchService/ExecuteBatch",
  "concord.storage.v1.BatchService/ReplayBatches",
  "concord.storage.v1.BatchService/RedriveDeadLetter",
  "concord.object.v1.ObjectAdminService/CollectGarbage",
  "concord.object.v1.ObjectAdminService/CheckConsistency",
];

const file = join(import.meta.dirname, "../../../protos/retries.json");
const [config] = (JSON.parse(readFileSync(file, "utf8")) as { methodConfig: { name: MethodName[] }[] }).methodConfig;

function servicesOf(...packages: readonly object[]): ReadonlyMap<string, readonly string[]> {
  const services = packages.flatMap((one) => Object.entries(one)).filter(([name]) => name.endsWith("Service"));
  return new Map(services.map(([, { name, methods }]) => [name, Object.keys(methods)]));
}

test("retries: every service and method named is one of the contracts", () => {
  const services = servicesOf(dedup, ids, object, storage, txn);
  for (const { service, method } of config!.name) {
    assert.ok(services.has(service), service);
    if (method !== undefined) assert.ok(services.get(service)!.includes(method), `${service}/${method}`);
  }
});

test("retries: no call that is not idempotent is repeated, and none between servers", () => {
  const isRepeated = (path: string): boolean => {
    const [service, method] = path.split("/");
    return config!.name.some((name) => name.service === service && (name.method === undefined || name.method === method));
  };
  for (const path of NEVER_REPEATED) assert.ok(!isRepeated(path), path);
  for (const { service } of config!.name) assert.doesNotMatch(service, /Replica|GroupLog|Coordinator|Heartbeat|ObjectMetadata/);
});
