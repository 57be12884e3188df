import { answerToWire, listMethods, WORKER_LIST } from "@concord/member-lists";
import { stepList, type ListedMember } from "@concord/ownership";
import { assert } from "@concord/runtime";
import type { Context } from "../context.ts";
import { LIST_TIMEOUT_MS, WORKERS_MAX } from "../limits.ts";
import { placedFrom } from "../store/worker-list.ts";

/** GetList and ChangeList (TX32): any worker takes a step. Each version has the placement made from the one before. */
export function workerListMethods({ list, partitions, peers }: Context): ReturnType<typeof listMethods> {
  return listMethods({
    kind: WORKER_LIST,
    lists: () => list().lists,
    change: async (change) => {
      const { lists, owners, stored } = list();
      assert(stored !== undefined, "a list that changes is stored");
      const own = partitions().units;
      const servesNothing = async ({ name, address }: ListedMember): Promise<boolean> =>
        (name === owners.self ? own.served : await peers.served(address, LIST_TIMEOUT_MS)) === 0;
      const options = { lists, owners, placesMax: WORKERS_MAX, servesNothing };
      return answerToWire(await stepList(change, { ...options, write: (next, before) => stored.write(placedFrom(before, next)) }));
    },
  });
}
