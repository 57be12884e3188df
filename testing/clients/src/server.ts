// A server of one service behind the real pipeline: what it answers and how it fails is encoded as every Concord server does.
import { nodeClock } from "@concord/adapter-node-runtime";
import { SchemaService } from "@concord/protos-storage";
import { schemaToWire } from "@concord/rows-wire";
import { defineService, grpcTransport, startHost, tokenAuthenticator, type Handler, type ServiceHost } from "@concord/rpc";
import { ConcordError, silentLog, silentMetrics } from "@concord/runtime";
import { catalogueOf, type TableDefinition } from "@concord/schema";

export const PHOTOS: TableDefinition = {
  name: "photos",
  kind: "transactional",
  columns: [
    { name: "owner", type: "bigint" },
    { name: "id", type: "uuid" },
    { name: "title", type: "text" },
  ],
  partitionKey: ["owner"],
  clusteringKey: ["id"],
  indexes: [{ name: "by_title", columns: ["title"] }],
  version: 1n,
};

export const BEHIND = new ConcordError("SCHEMA_BEHIND", "schema version 99 is not known here yet: «später»", {
  metadata: { version: "3" },
  retryAfterMs: 1250,
});

/** Serves on a free port of loopback. */
export async function startServer(): Promise<ServiceHost> {
  const environment = { clock: nodeClock, log: silentLog, metrics: silentMetrics, authenticator: tokenAuthenticator([]) };
  const catalogue = catalogueOf(3n, [PHOTOS]);
  const getSchema: Handler<SchemaService, "GetSchema"> = (request) =>
    request.schemaVersion > catalogue.version ? Promise.reject(BEHIND) : Promise.resolve(schemaToWire(catalogue));
  const service = defineService(
    {
      contract: SchemaService,
      unary: { GetSchema: getSchema, CreateTables: () => Promise.resolve({ schemaVersion: undefined }) },
      roles: ["client"],
    },
    environment,
  );
  const host = await startHost({ transport: grpcTransport(environment), address: "127.0.0.1:0", services: [service], ...environment });
  host.setServing();
  return host;
}
