// A storage-proxy's two services over in-memory stores, for the tests of its client side.
import { MemoryGroupLog, MemoryRowStore } from "@concord/port-contracts";
import type { GroupOwner, Mutation, RowImage, RowRange, TrimRequest } from "@concord/ports";
import { contract } from "@concord/protos-storage";
import {
  defineUntypedService,
  startHost,
  tokenAuthenticator,
  type HandlerContext,
  type Service,
  type ServiceHost,
  type UnaryHandler,
} from "@concord/rpc";
import {
  silentLog,
  silentMetrics,
  timestampUsOf,
  type Clock,
  type Epoch,
  type Seq,
  type TimestampUs,
  type Transport,
} from "@concord/runtime";
import {
  columnFromWire,
  keyFromWire,
  keyToWire,
  rangeFromWire,
  type WireColumn,
  type WireRowKey,
  type WireRowRange,
} from "@concord/rows-wire";
import { cellToWire } from "@concord/values";

export const TOKEN = "coordinator-secret";

export interface Stores {
  readonly rows: MemoryRowStore;
  readonly log: MemoryGroupLog;
}

export interface MemoryProxy {
  readonly services: readonly Service[];
  readonly calls: string[];
  /** Awaited before every call; throws what the call fails with. */
  before: (operation: string) => Promise<void>;
  host: ServiceHost | undefined;
}

const KINDS = { WRITE_KIND_INSERT: "insert", WRITE_KIND_UPDATE: "update", WRITE_KIND_DELETE: "delete" } as const;

interface WireMutation {
  readonly write: { readonly kind: keyof typeof KINDS; readonly key: WireRowKey; readonly columns: readonly WireColumn[] };
  readonly timestampUs: bigint;
}

export async function startMemoryProxy(address: string, stores: Stores, transport: Transport, clock: Clock): Promise<MemoryProxy> {
  const proxy: MemoryProxy = { services: [], calls: [], before: () => Promise.resolve(), host: undefined };
  const services = [define(proxy, clock, "RowsService", rowsMethods(stores)), define(proxy, clock, "GroupLogService", logMethods(stores))];
  for (const service of services) service.setState("serving");
  const host = await startHost({ transport, address, services, clock, log: silentLog, reflection: false });
  return Object.assign(proxy, { services, host });
}

type Method = (request: never, timeoutMs: number) => Promise<object>;

function define(proxy: MemoryProxy, clock: Clock, name: string, methods: Readonly<Record<string, Method>>): Service {
  const wrap =
    (operation: string, method: Method): UnaryHandler =>
    async (request: never, context: HandlerContext) => {
      proxy.calls.push(operation);
      await proxy.before(operation);
      return method(request, context.deadlineAtMs - clock.monotonicMs());
    };
  const unary = Object.fromEntries(Object.entries(methods).map(([operation, method]) => [operation, wrap(operation, method)]));
  const roles = Object.fromEntries(Object.keys(methods).map((operation) => [operation, ["coordinator"] as const]));
  const authenticator = tokenAuthenticator([{ role: "coordinator", token: TOKEN }]);
  return defineUntypedService(
    { contract: contract.service(name), unary, roles },
    { clock, log: silentLog, metrics: silentMetrics, authenticator },
  );
}

function rowsMethods({ rows }: Stores): Readonly<Record<string, Method>> {
  return {
    Read: async (request: { keys: WireRowKey[]; images: boolean }) => {
      const images = await rows.read(request.keys.map(keyFromWire));
      return { results: images.map((image) => (image === undefined ? {} : { image: imageToWire(image) })) };
    },
    ReadRange: async (request: { range: WireRowRange; pageSize: number; images: boolean }) => {
      const range: RowRange = rangeFromWire(request.range, request.pageSize);
      const page = await rows.readRange(range);
      return { images: page.rows.map(imageToWire), nextPageToken: page.next === undefined ? new Uint8Array() : Uint8Array.of(1) };
    },
    Apply: async (request: { mutations: WireMutation[] }) => {
      await rows.apply(request.mutations.map(mutationFromWire));
      return {};
    },
  };
}

function logMethods({ log }: Stores): Readonly<Record<string, Method>> {
  type Owned = GroupOwner;
  return {
    Status: (request: { group: string }) => log.status(request.group),
    Raise: async ({ group, epoch, owner }: Owned) => {
      const outcome = await log.raise({ group, epoch, owner });
      if (outcome.kind === "refused") return { refused: { epoch: outcome.promisedEpoch, owner: outcome.owner } };
      if (outcome.kind === "unknown") return { unknown: {} };
      const entries = outcome.tail.entries.map(({ seq, epoch: at, bytes }) => ({ seq, epoch: at, content: bytes }));
      return { raised: { ...outcome.tail, entries } };
    },
    Append: async (request: Owned & { seq: Seq; previousEpoch: Epoch; timestampCeilingUs: TimestampUs; content: Uint8Array }) => {
      const outcome = await log.append({ ...request, bytes: request.content });
      return outcome.kind === "fenced" ? { fenced: { epoch: outcome.promisedEpoch } } : { [outcome.kind]: {} };
    },
    Verify: async ({ group, epoch, owner }: Owned) => ({ [await log.verify({ group, epoch, owner })]: {} }),
    Trim: async ({ group, epoch, owner, appliedSeq, appliedEpoch }: TrimRequest) => {
      await log.trim({ group, epoch, owner, appliedSeq, appliedEpoch });
      return {};
    },
  };
}

function mutationFromWire({ write, timestampUs: wireUs }: WireMutation): Mutation {
  const timestampUs = timestampUsOf(wireUs);
  const kind = KINDS[write.kind];
  const key = keyFromWire(write.key);
  return kind === "delete" ? { kind, key, timestampUs } : { kind, key, columns: write.columns.map(columnFromWire), timestampUs };
}

function imageToWire(image: RowImage): object {
  const cells = [...image.cells].map(([name, { timestampUs, value }]) => ({ name, timestampUs, value: cellToWire(value) }));
  return { key: keyToWire(image.key), deletedAtUs: image.deletedAtUs ?? 0n, markerUs: image.markerUs ?? 0n, cells };
}
