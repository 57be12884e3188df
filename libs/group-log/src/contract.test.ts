// The GroupLog contract on the ring, with one replica and with three; and with three of which one is always down or always slow.
import { test } from "node:test";
import { GROUP_LOG_CASES, MemoryKeyValue, registerContract, type GroupLogSubject } from "@concord/port-contracts";
import { ConcordError, type Clock } from "@concord/runtime";
import { RAISE_ALL_MS } from "./limits.ts";
import type { LogReplica } from "./replica.ts";
import { RingGroupLog } from "./ring-group-log.ts";
import { openPlainRing } from "./test/plain-replica.ts";

const clock: Clock = {
  nowMs: () => 1_000_000,
  nowUs: () => 1_000_000_000n,
  monotonicMs: () => 0,
  setTimer: (delayMs, action) => {
    // Only the wait for a third promise ends here.
    const immediate = delayMs <= RAISE_ALL_MS ? setImmediate(action) : undefined;
    return { cancel: () => clearImmediate(immediate) };
  },
  defer: (action) => queueMicrotask(action),
};

const dead = (name: string): LogReplica => {
  const fail = (): Promise<never> => Promise.reject(new ConcordError("CONNECTION_LOST", `${name} is down`));
  return { name, reachable: true, logRaise: fail, logAppend: fail, logState: fail, logRead: fail, logAdvance: fail, logCatchUp: fail };
};

const stuck = (name: string): LogReplica => {
  const wait = (): Promise<never> => new Promise(() => undefined);
  return { name, reachable: true, logRaise: wait, logAppend: wait, logState: wait, logRead: wait, logAdvance: wait, logCatchUp: wait };
};

function ringOf(size: number, third?: (name: string) => LogReplica): () => Promise<GroupLogSubject> {
  return async () => {
    let stores = Array.from({ length: size }, () => new MemoryKeyValue());
    const open = async (): Promise<RingGroupLog> => {
      const linkOf = (at: number, replica: LogReplica): LogReplica => (third !== undefined && at === 2 ? third("node-2") : replica);
      const replicas = await openPlainRing(stores, clock, linkOf);
      return new RingGroupLog({ replicas: replicas.map((replica, at) => linkOf(at, replica)), clock });
    };
    const restart = (): Promise<RingGroupLog> => {
      stores = stores.map((store) => new MemoryKeyValue(store.crash()));
      return open();
    };
    return { log: await open(), restart };
  };
}

// Without a third answer a missing entry cannot be proved missing: those two promises need all replicas.
const WITHOUT_THIRD = GROUP_LOG_CASES.filter(({ name }) => !name.includes("leaves a gap") && !name.includes("on top of another epoch"));

registerContract(test, "GroupLog ring of 1", GROUP_LOG_CASES, ringOf(1));
registerContract(test, "GroupLog ring of 3", GROUP_LOG_CASES, ringOf(3));
registerContract(test, "GroupLog ring of 3, one down", WITHOUT_THIRD, ringOf(3, dead));
registerContract(test, "GroupLog ring of 3, one stuck", WITHOUT_THIRD, ringOf(3, stuck));
