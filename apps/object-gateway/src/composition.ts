import { FilesystemObjectData } from "@concord/adapter-filesystem";
import { tokensOf } from "@concord/config";
import type { KeyValue, ObjectMetadata } from "@concord/ports";
import { startHost, tokenAuthenticator } from "@concord/rpc";
import type { ConcordError, Disk, Environment, HttpServer } from "@concord/runtime";
import { createVerifier } from "@concord/s3";
import { objectAdmin } from "./admin.ts";
import type { ObjectGatewayConfig } from "./config.ts";
import { openGatewayStore, type GatewayTuning } from "./gateway-parts.ts";
import { UploadBudget } from "./http/budget.ts";
import { s3Handler } from "./http/pipeline.ts";
import { onFailedOf, openMetadata } from "./metadata.ts";
import { defineServices } from "./rpc/services.ts";
import { ObjectGatewayService, type GatewayParts } from "./service.ts";

export interface ObjectGatewayHost {
  readonly environment: Environment;
  /** The gateway's own: its journal, and the objects' data when there is no `dataDisk`. */
  readonly disk: Disk;
  /** Objects' data that several gateways share. */
  readonly dataDisk?: Disk;
  readonly http: HttpServer;
  /** The store of local metadata by node name; a level store in the data folder when not given. */
  readonly openKeyValue?: (name: string) => Promise<KeyValue>;
  /** Instead of what `metadata` in the configuration says. The caller closes it. */
  readonly metadata?: ObjectMetadata;
  /** Of tests and simulations. */
  readonly tuning?: GatewayTuning;
  /** The store failed: the process must end and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}

/** With metadata.ts the only place that knows the adapters of an object-gateway. */
export function composeObjectGateway(config: ObjectGatewayConfig, host: ObjectGatewayHost): ObjectGatewayService {
  const { environment } = host;
  const { clock, random, log, metrics, transport, failpoint } = environment;
  const { region, domain, listenAddress: address, reflection, drainGraceMs } = config;
  const keys = new Map(
    config.accessKeys.map(({ accessKeyId, secretAccessKey, tenant }) => [accessKeyId, { secret: secretAccessKey, tenant }]),
  );
  const verifier = createVerifier({ region, credential: (accessKey) => keys.get(accessKey) });
  const authenticator = tokenAuthenticator(tokensOf(config));
  return new ObjectGatewayService({
    log,
    drainGraceMs,
    open: (httpAddress, signal) => openParts(config, host, httpAddress, signal),
    services: (admin) => defineServices(environment, authenticator, admin),
    host: (services) => startHost({ transport, address, services, clock, log, reflection }),
    handler: (context) => s3Handler({ clock, random, log, metrics, failpoint, verifier, domain, context }),
    serveHttp: (handler) => host.http.serve(config.httpAddress, handler),
  });
}

async function openParts(
  config: ObjectGatewayConfig,
  host: ObjectGatewayHost,
  httpAddress: () => string,
  signal: AbortSignal,
): Promise<GatewayParts> {
  const { environment, disk } = host;
  const { log, metrics, checksum, failpoint } = environment;
  const opened = await openMetadata(config, host, signal);
  const data = new FilesystemObjectData({ disk: host.dataDisk ?? disk, checksum, failpoint, log, packBytesMax: config.packBytesMax });
  const { metadata } = opened;
  const tuning = host.tuning ?? {};
  const options = { config, environment, metadata, data, disk, tuning, onFailed: onFailedOf(host) };
  const gateway = await openGatewayStore(options).catch(async (thrown: unknown) => {
    await opened.close();
    throw thrown;
  });
  const { region, partBytesMax, uploadsInFlightMax: uploadsMax, uploadBufferBytes: bytesMax } = config;
  const budget = new UploadBudget({ uploadsMax, bytesMax, metrics });
  return {
    context: {
      store: gateway.store,
      log,
      metrics,
      budget,
      region,
      partBytesMax,
      scheme: config.tlsCertificateFile === undefined ? "http" : "https",
    },
    admin: objectAdmin({ config, gateway, budget, httpAddress }),
    startBackground: () => gateway.startBackground(),
    close: () =>
      gateway
        .stop()
        .then(() => data.close())
        .then(() => opened.close()),
  };
}
