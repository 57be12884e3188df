// A storage-proxy's two services over in-memory stores, for the tests of its client side.
import type { MemoryGroupLog, MemoryRowStore } from "@concord/port-contracts";
import type { GroupOwner } from "@concord/ports";
import {
  GroupLogService,
  RowsService,
  type AppendResponseInit,
  type LogEntry,
  type LogTail,
  type RaiseResponseInit,
  type ReadRangeResponseInit,
  type ReadResponseInit,
  type ReadResultInit,
  type VerifyRequest,
  type VerifyResponseInit,
} from "@concord/protos-storage";
import { fakeService, startHost, tokenAuthenticator, type FakeAnswers, type FakeCall, type Service, type ServiceHost } from "@concord/rpc";
import { epochOf, seqOf, silentLog, silentMetrics, timestampUsOf, type Clock, type Transport } from "@concord/runtime";
import { imageToWire, keyFromWire, mutationFromWire, rangeFromWire } from "@concord/rows-wire";

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

export async function startMemoryProxy(address: string, stores: Stores, transport: Transport, clock: Clock): Promise<MemoryProxy> {
  const proxy: MemoryProxy = { services: [], calls: [], before: () => Promise.resolve(), host: undefined };
  const intercept = async ({ method, answer }: FakeCall): Promise<object> => {
    proxy.calls.push(method);
    await proxy.before(method);
    return answer();
  };
  const authenticator = tokenAuthenticator([{ role: "coordinator", token: TOKEN }]);
  const fixed = { intercept, role: "coordinator", environment: { clock, log: silentLog, metrics: silentMetrics, authenticator } } as const;
  const services = [
    fakeService({ contract: RowsService, answers: rowsAnswers(stores), ...fixed }),
    fakeService({ contract: GroupLogService, answers: logAnswers(stores), ...fixed }),
  ];
  const host = await startHost({
    transport,
    address,
    services,
    clock,
    log: silentLog,
    metrics: silentMetrics,
    authenticator,
    reflection: false,
  });
  return Object.assign(proxy, { services, host });
}

function rowsAnswers({ rows }: Stores): FakeAnswers<RowsService> {
  return {
    Read: async ({ keys }): Promise<ReadResponseInit> => {
      const images = await rows.read(keys.map(keyFromWire));
      return { results: images.map((image): ReadResultInit => (image === undefined ? {} : { image: imageToWire(image) })) };
    },
    ReadRange: async ({ range, pageSize }): Promise<ReadRangeResponseInit> => {
      const page = await rows.readRange(rangeFromWire(range, pageSize));
      return { images: page.rows.map(imageToWire), nextPageToken: page.next === undefined ? new Uint8Array() : Uint8Array.of(1) };
    },
    Apply: async ({ mutations }) => {
      await rows.apply(mutations.map(mutationFromWire));
      return {};
    },
  };
}

function logAnswers({ log }: Stores): FakeAnswers<GroupLogService> {
  return {
    Status: async ({ group }) => ({ ...(await log.status(group)), exchangesMax: log.exchangesMax }),
    Raise: async (request): Promise<RaiseResponseInit> => {
      const outcome = await log.raise(ownerOf(request));
      if (outcome.kind === "refused") return { refused: { epoch: outcome.promisedEpoch, owner: outcome.owner } };
      if (outcome.kind === "unknown") return { unknown: {} };
      const entries = outcome.tail.entries.map(({ seq, epoch, bytes, rows }): LogEntry => ({ seq, epoch, content: bytes, rows }));
      return { raised: { ...outcome.tail, entries } satisfies LogTail };
    },
    Append: async (request): Promise<AppendResponseInit> => {
      const outcome = await log.append({
        ...ownerOf(request),
        seq: seqOf(request.seq),
        previousEpoch: epochOf(request.previousEpoch),
        timestampCeilingUs: timestampUsOf(request.timestampCeilingUs),
        bytes: request.content,
        rows: request.rows,
        decided: { seq: seqOf(request.decidedSeq), epoch: epochOf(request.decidedEpoch) },
      });
      return outcome.kind === "fenced" ? { fenced: { epoch: outcome.promisedEpoch } } : { [outcome.kind]: {} };
    },
    Verify: async (request): Promise<VerifyResponseInit> => ({ [await log.verify(ownerOf(request))]: {} }),
    Trim: async (request) => {
      const { appliedSeq, appliedEpoch } = request;
      const outcome = await log.advance({ ...ownerOf(request), decided: { seq: seqOf(appliedSeq), epoch: epochOf(appliedEpoch) } });
      return { advanced: outcome === "advanced" };
    },
  };
}

function ownerOf({ group, epoch, owner }: VerifyRequest): GroupOwner {
  return { group, epoch: epochOf(epoch), owner };
}
