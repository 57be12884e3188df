import type { ObjectMetadata, Store } from "@concord/ports";
import type { ConcordError, DigestThread, Disk, Environment, HttpServer, Writes } from "@concord/runtime";
import type { OpenSink } from "./event-sinks.ts";
import type { GatewayTuning } from "./gateway-store.ts";
import type { Peers } from "./peers.ts";

export interface ObjectGatewayOptions {
  readonly environment: Environment;
  /** The gateway's own: its journal, and the objects' data when there is no `dataDisk`. */
  readonly disk: Disk;
  /** Objects' data that several gateways share. */
  readonly dataDisk?: Disk;
  readonly http: HttpServer;
  /** Hashes long uploads; the main thread does when not given. */
  readonly digestThread?: DigestThread;
  /** The store of local metadata by node name; one in the data folder when not given. */
  readonly openKeyValue?: (name: string) => Promise<Store>;
  /** Writes are refused with the reason, and nothing runs in the background: `disk` and `dataDisk` forget what is written to them. */
  readonly writes?: Writes;
  /** Reads the file of users. */
  readonly readFile?: (path: string) => string;
  /** Instead of what `metadata` in the configuration says. The caller closes it. */
  readonly metadata?: ObjectMetadata;
  /** Metadata of a storage-proxy in this process, for metadata `storage`: replaces those of the configuration. */
  readonly storageMetadata?: ObjectMetadata;
  /** The gateways of the same rows and blobs: a dead one's epochs are recovered at the verdict. Without: when its row stands still (OGD3). */
  readonly peers?: Peers;
  /** Targets of events by their workers' addresses: dedup-workers over the transport when not given. */
  readonly openSink?: OpenSink;
  /** Tuning for tests and simulations. */
  readonly tuning?: GatewayTuning;
  /** The store failed: the process must end and start again. An unhandled rejection when not given. */
  readonly onFailed?: (cause: ConcordError) => void;
}
