// What clients know of the versions of one bucket, compared with its rows and with the events that came out: each committed change announced once.

/** A version or a delete marker. In a bucket without versions the id is "null". */
export interface VersionName {
  readonly key: string;
  readonly id: string;
}

export interface ListedVersion extends VersionName {
  /** undefined: a delete marker. */
  readonly etag: string | undefined;
}

export interface VersionEvent extends VersionName {
  readonly name: string;
  readonly etag: string | undefined;
  /** Of the request that made it; empty where a lifecycle rule did. */
  readonly requestId: string;
}

export interface Finding {
  readonly kind: "lost" | "dirty" | "duplicated";
  readonly text: string;
}

export interface Judgement {
  readonly findings: readonly Finding[];
  /** What may yet come: events on their way, objects that a rule removes. */
  readonly open: readonly string[];
}

/**
 * kept: there until a client removes it. expiring: a lifecycle rule may remove it, and must when all is quiet. free: a rule may.
 * removing: the answer to its removal is missing.
 */
export type Fate = "kept" | "expiring" | "free" | "removing" | "removed";

interface Known {
  readonly name: VersionName;
  readonly etag: string | undefined;
  fate: Fate;
}

interface EventsOf {
  readonly created: readonly VersionEvent[];
  readonly removed: readonly VersionEvent[];
}

/** One version: what clients know, what is there, what came out. */
interface Compared {
  readonly name: string;
  readonly known: Known | undefined;
  readonly there: ListedVersion | undefined;
  readonly seen: EventsOf;
}

const NO_EVENTS: EventsOf = { created: [], removed: [] };
const textOf = ({ key, id }: VersionName): string => `${key}?versionId=${id}`;

export class VersionLedger {
  readonly #bucket: string;
  /** ETags that may come up, by key. */
  readonly #sent = new Map<string, Set<string>>();
  /** In the order of their answers. */
  readonly #known = new Map<string, Known>();
  readonly #refused = new Map<string, string>();
  readonly #events: VersionEvent[] = [];

  constructor(bucket: string) {
    this.#bucket = bucket;
  }

  /** Before a put: until it is answered it may have happened. */
  sent(key: string, etag: string): void {
    const sent = this.#sent.get(key) ?? new Set();
    this.#sent.set(key, sent.add(etag));
  }

  acknowledged({ key, id, etag }: ListedVersion, fate: Fate): void {
    this.#known.set(textOf({ key, id }), { name: { key, id }, etag, fate });
  }

  /** Before its removal is sent. */
  removing(name: VersionName): void {
    this.#known.get(textOf(name))!.fate = "removing";
  }

  removed(name: VersionName): void {
    this.#known.get(textOf(name))!.fate = "removed";
  }

  /** Before its lock is taken off. */
  freed(name: VersionName): void {
    this.#known.get(textOf(name))!.fate = "free";
  }

  /** A request that changed nothing must not be announced. */
  refused(requestId: string, text: string): void {
    this.#refused.set(requestId, text);
  }

  came(event: VersionEvent): void {
    this.#events.push(event);
  }

  /**
   * While no client writes. `listed` was read after the events, newest version of a key first.
   */
  judge(listed: readonly ListedVersion[], fateOf: (key: string) => Fate): Judgement {
    const findings: Finding[] = [];
    const open: string[] = [];
    const present = new Map(listed.map((version) => [textOf(version), version]));
    const events = this.#eventsByVersion();
    for (const name of new Set([...this.#known.keys(), ...present.keys(), ...events.keys()])) {
      const one = { name, known: this.#known.get(name), there: present.get(name), seen: events.get(name) ?? NO_EVENTS };
      findings.push(...this.#rows(one), ...this.#contents(one), ...this.#announced(one));
      open.push(...openOf(one));
      if (one.there !== undefined && (one.known?.fate ?? fateOf(one.there.key)) === "expiring")
        open.push(`${name} has expired, and is there`);
    }
    return { findings: [...findings, ...this.#requests(), ...this.#order(listed)], open };
  }

  /** What was indeterminate is decided by what is there; from now on the order of `listed` is that of the answers. */
  decide(listed: readonly ListedVersion[], fateOf: (key: string) => Fate): void {
    // The oldest first, as clients made them.
    const present = new Map(listed.toReversed().map((version) => [textOf(version), version]));
    for (const [name, version] of present) {
      const known = this.#known.get(name) ?? { name: { key: version.key, id: version.id }, etag: version.etag, fate: fateOf(version.key) };
      if (known.fate === "removing") known.fate = fateOf(version.key);
      this.#known.delete(name);
      this.#known.set(name, known);
    }
    for (const [name, known] of this.#known) if (!present.has(name)) known.fate = "removed";
  }

  /** Those of a key that clients may remove. */
  kept(key: string): readonly VersionName[] {
    return [...this.#known.values()].filter(({ name, fate }) => fate === "kept" && name.key === key).map(({ name }) => name);
  }

  #rows({ name, known, there }: Compared): readonly Finding[] {
    if (known === undefined) return [];
    if (there === undefined) return known.fate === "kept" ? [this.#finding("lost", `${name} is gone`)] : [];
    if (known.fate === "removed") return [this.#finding("dirty", `${name} is there, and was removed`)];
    return there.etag === known.etag ? [] : [this.#finding("dirty", `${name} has ${there.etag}, not ${known.etag}`)];
  }

  /** What was never sent is never there, and never announced. */
  #contents({ name, there, seen }: Compared): readonly Finding[] {
    const isSent = (key: string, etag: string | undefined): boolean => etag === undefined || this.#sent.get(key)?.has(etag) === true;
    return [there, ...seen.created].flatMap((one) =>
      one === undefined || isSent(one.key, one.etag) ? [] : [this.#finding("dirty", `${name} with ${one.etag} was never sent`)],
    );
  }

  #announced({ name, there, seen }: Compared): readonly Finding[] {
    const twice = (["created", "removed"] as const).filter((kind) => seen[kind].length > 1);
    const findings = twice.map((kind) => this.#finding("duplicated", `${name} is announced as ${kind} ${seen[kind].length} times`));
    if (there !== undefined && seen.removed.length > 0)
      findings.push(this.#finding("dirty", `${name} is announced as removed, and is there`));
    return findings;
  }

  #requests(): readonly Finding[] {
    return this.#events.flatMap(({ requestId, name, key }) => {
      const refused = this.#refused.get(requestId);
      return refused === undefined ? [] : [this.#finding("dirty", `${refused} was refused, and ${name} of ${key} announced`)];
    });
  }

  /** Of one key the objects that were answered come up in the order of the answers: each key has one writer. */
  #order(listed: readonly ListedVersion[]): readonly Finding[] {
    const places = new Map([...this.#known.keys()].map((name, at) => [name, at]));
    const last = new Map<string, number>();
    const findings: Finding[] = [];
    for (const version of listed) {
      const place = places.get(textOf(version));
      if (place === undefined || version.etag === undefined) continue;
      if (place > (last.get(version.key) ?? Infinity)) findings.push(this.#finding("dirty", `${textOf(version)} is out of order`));
      last.set(version.key, place);
    }
    return findings;
  }

  #eventsByVersion(): ReadonlyMap<string, EventsOf> {
    const found = new Map<string, Record<keyof EventsOf, VersionEvent[]>>();
    for (const event of this.#events) {
      const of = found.get(textOf(event)) ?? { created: [], removed: [] };
      found.set(textOf(event), of);
      of[isCreation(event) ? "created" : "removed"].push(event);
    }
    return found;
  }

  #finding(kind: Finding["kind"], text: string): Finding {
    return { kind, text: `${this.#bucket}: ${text}` };
  }
}

const isCreation = ({ name }: VersionEvent): boolean => name.startsWith("ObjectCreated:") || name.endsWith(":DeleteMarkerCreated");

/** Each version that was ever there has one event, and one more when it is gone. */
function openOf({ name, there, seen }: Compared): readonly string[] {
  const open = seen.created.length === 0 ? [`${name} has no event`] : [];
  if (there === undefined && seen.removed.length === 0) open.push(`${name} is gone, and its removal has no event`);
  return open;
}
