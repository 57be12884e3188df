import type { KeyPage, ObjectSpan, RadosPool, WriteAnswer, WriteStep } from "../pool.ts";

interface StoredObject {
  bytes: Uint8Array;
  readonly attributes: Map<string, Uint8Array>;
  readonly keys: Map<string, Uint8Array>;
}

const same = (left: Uint8Array | undefined, right: Uint8Array): boolean => Buffer.compare(left ?? new Uint8Array(), right) === 0;

/** The cluster of clients that tests stop and cut off; what RADOS answers is shown by the suite that both pass. */
export class MemoryCluster {
  readonly objects = new Map<string, StoredObject>();

  apply(name: string, steps: readonly WriteStep[]): WriteAnswer {
    const before = this.objects.get(name);
    const draft: StoredObject = {
      bytes: before?.bytes.slice() ?? new Uint8Array(),
      attributes: new Map(before?.attributes),
      keys: new Map(before?.keys),
    };
    let exists = before !== undefined;
    for (const step of steps) {
      const answer = applyStep(draft, exists, step);
      if (answer !== "done") return answer;
      exists = step.kind === "remove" ? false : exists || !step.kind.startsWith("expect");
    }
    if (exists) this.objects.set(name, draft);
    else this.objects.delete(name);
    return "done";
  }
}

function applyStep(draft: StoredObject, exists: boolean, step: WriteStep): WriteAnswer {
  switch (step.kind) {
    case "create":
      return exists ? "exists" : "done";
    case "ensure":
      return "done";
    case "expect-attribute":
      if (!exists) return "absent";
      return same(draft.attributes.get(step.name), step.value) ? "done" : "mismatch";
    case "expect-key":
      if (!exists) return "absent";
      return same(draft.keys.get(step.key), step.value) ? "done" : "mismatch";
    case "set-attribute":
      draft.attributes.set(step.name, step.value.slice());
      return "done";
    case "set-key":
      draft.keys.set(step.key, step.value.slice());
      return "done";
    case "remove-key":
      draft.keys.delete(step.key);
      return "done";
    case "write": {
      const longer = new Uint8Array(Math.max(draft.bytes.length, step.at + step.bytes.length));
      longer.set(draft.bytes);
      longer.set(step.bytes, step.at);
      draft.bytes = longer;
      return "done";
    }
    case "empty":
      draft.bytes = new Uint8Array();
      return "done";
    case "remove":
      return exists ? "done" : "absent";
  }
}

/** One client of the cluster. `send` decides what becomes of each write: by default it happens at once. */
export class MemoryPool implements RadosPool {
  readonly #cluster: MemoryCluster;
  /** The last write of each object: the next one follows it. */
  readonly #last = new Map<string, Promise<unknown>>();
  send: (apply: () => WriteAnswer, object: string) => WriteAnswer | Promise<WriteAnswer> = (apply) => apply();

  constructor(cluster: MemoryCluster) {
    this.#cluster = cluster;
  }

  async write(object: string, steps: readonly WriteStep[]): Promise<WriteAnswer> {
    const own = steps.map((step) =>
      step.kind === "write" ? { ...step, bytes: step.bytes.slice() } : "value" in step ? { ...step, value: step.value.slice() } : step,
    );
    const sent = (this.#last.get(object) ?? Promise.resolve()).then(() => this.send(() => this.#cluster.apply(object, own), object));
    this.#last.set(
      object,
      sent.catch(() => undefined),
    );
    return sent;
  }

  async read(object: string, at: number, lengthBytes: number): Promise<ObjectSpan | undefined> {
    const found = this.#cluster.objects.get(object);
    return found && { attributes: new Map(found.attributes), bytes: found.bytes.slice(at, at + lengthBytes) };
  }

  async keys(object: string, after: string, limit: number): Promise<KeyPage> {
    const found = this.#cluster.objects.get(object);
    const entries = [...(found?.keys ?? [])].filter(([key]) => key > after).sort(([left], [right]) => (left < right ? -1 : 1));
    return { entries: entries.slice(0, limit), more: entries.length > limit };
  }

  async key(object: string, key: string): Promise<Uint8Array | undefined> {
    return this.#cluster.objects.get(object)?.keys.get(key)?.slice();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
