// What one client knows of the versions of one key in a bucket whose versioning is switched on and off: a write while it is suspended replaces the null
// version and nothing else, every other version stays until it is removed by its id.

export const NULL_ID = "null";

export interface KeyVersion {
  readonly id: string;
  /** undefined: a delete marker. */
  readonly etag: string | undefined;
}

/** Newest first. */
type Versions = readonly KeyVersion[];

/** written: an object or a delete marker; with versions it gets an id of its own, else it is the null version. */
export type KeyChange =
  | { readonly kind: "written"; readonly etag: string | undefined; readonly withVersions: boolean }
  | { readonly kind: "removed"; readonly id: string };

/** Of a version whose answer is missing: any id that was not there before. */
const ANY_ID = "?";

/** Has one writer, which settles what has no answer before it changes anything else. */
export class KeyHistory {
  #known: Versions = [];
  /** While an answer is missing. */
  #next: Versions | undefined;

  /** What is there for certain. */
  get known(): Versions {
    return this.#known;
  }

  get isSettled(): boolean {
    return this.#next === undefined;
  }

  /** Before it is sent. */
  sent(change: KeyChange): void {
    this.#next = applied(this.#known, change);
  }

  /** `id`: of what was written. */
  answered(id: string): void {
    this.#known = (this.#next ?? []).map((version) => (version.id === ANY_ID ? { ...version, id } : version));
    this.#next = undefined;
  }

  /** Text: what is there is neither what was before the change without an answer nor what it makes. From now on what is there is known. */
  settle(found: Versions): string | undefined {
    const possible = [this.#known, ...(this.#next === undefined ? [] : [this.#next])];
    const matching = possible.map((versions) => matched(versions, found, this.#known)).find((versions) => versions !== undefined);
    const wrong = matching === undefined ? `${textOf(found)}, may be ${possible.map(textOf).join(" or ")}` : undefined;
    this.#known = matching ?? found;
    this.#next = undefined;
    return wrong;
  }
}

function applied(versions: Versions, change: KeyChange): Versions {
  if (change.kind === "removed") return versions.filter(({ id }) => id !== change.id);
  const { etag, withVersions } = change;
  if (withVersions) return [{ id: ANY_ID, etag }, ...versions];
  return [{ id: NULL_ID, etag }, ...versions.filter(({ id }) => id !== NULL_ID)];
}

/** With ids that were not known; undefined: something else is there. A listing has objects and delete markers apart, each in its order. */
function matched(expected: Versions, found: Versions, known: Versions): Versions | undefined {
  const isNew = (id: string): boolean => id !== NULL_ID && !known.some((version) => version.id === id);
  const made = found.filter(({ id }) => isNew(id));
  const named = expected.map((version) => (version.id === ANY_ID ? { ...version, id: made[0]?.id ?? ANY_ID } : version));
  const isSame = ([left, right]: readonly [Versions, Versions]): boolean => textOf(left) === textOf(right);
  const parts = [isObject, isMarker].map((of) => [named.filter(of), found.filter(of)] as const);
  return parts.every(isSame) ? named : undefined;
}

const isObject = ({ etag }: KeyVersion): boolean => etag !== undefined;
const isMarker = ({ etag }: KeyVersion): boolean => etag === undefined;
const textOf = (versions: Versions): string => `[${versions.map(({ id, etag }) => `${id}=${etag ?? "marker"}`).join(" ")}]`;
