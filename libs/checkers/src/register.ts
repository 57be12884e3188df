// Is a history of one register linearizable? Operations are linearized as late as possible: when one returns, everything that must come
// before it is put before it. Unknown outcomes never return, so they may take effect at any time, or never.

export type RegisterOperation = {
  readonly name: string;
  readonly startedAt: number;
  /** Infinity: it is unknown whether it happened, or when. */
  readonly endedAt: number;
} & RegisterEffect;

/** Values are names; undefined: nothing is there. Every written value but undefined is written by one operation only. */
export type RegisterEffect =
  | { readonly kind: "write"; readonly value: string | undefined; readonly onlyIfAbsent?: boolean }
  | { readonly kind: "read"; readonly accepts: (value: string | undefined) => boolean; readonly found: string };

export type RegisterVerdict =
  | { readonly kind: "linearizable" }
  /** No order explains what `operation` found; `possible` are the values there could have been. */
  | { readonly kind: "anomaly"; readonly operation: string; readonly found: string; readonly possible: readonly string[] }
  /** Too many orders to look at. */
  | { readonly kind: "undecided" };

/** Values and pending operations done that one order of the past comes to. */
interface Configuration {
  readonly value: string | undefined;
  readonly done: ReadonlySet<RegisterOperation>;
}

const CONFIGURATIONS_MAX = 20_000;

/** `initial` is the value before the first operation. */
export function checkRegister(operations: readonly RegisterOperation[], initial?: string): RegisterVerdict {
  const history = operations.filter((operation) => isNeeded(operation, operations));
  const names = namesOf(history);
  const pending = new Set<RegisterOperation>();
  let configurations: readonly Configuration[] = [{ value: initial, done: new Set() }];
  for (const event of eventsOf(history)) {
    if (event.kind === "call") {
      pending.add(event.operation);
      continue;
    }
    const next = afterReturn(configurations, event.operation, pending, names);
    if (next === undefined) return { kind: "undecided" };
    if (next.length === 0) return anomaly(event.operation, configurations, pending);
    pending.delete(event.operation);
    configurations = next;
  }
  return { kind: "linearizable" };
}

/** A read without answer says nothing; a write without answer whose value no read saw need not have happened. */
function isNeeded(operation: RegisterOperation, all: readonly RegisterOperation[]): boolean {
  if (operation.endedAt !== Number.POSITIVE_INFINITY) return true;
  if (operation.kind === "read") return false;
  if (operation.value === undefined) return true;
  return all.some((other) => other.kind === "read" && other.accepts(operation.value) && other.endedAt >= operation.startedAt);
}

interface Event {
  readonly at: number;
  readonly kind: "call" | "return";
  readonly operation: RegisterOperation;
}

/** In order of time; at one moment calls come first: then the operations overlap. */
function eventsOf(history: readonly RegisterOperation[]): Event[] {
  const events = history.flatMap((operation): Event[] => [
    { at: operation.startedAt, kind: "call", operation },
    ...(operation.endedAt === Number.POSITIVE_INFINITY ? [] : [{ at: operation.endedAt, kind: "return", operation } as const]),
  ]);
  const rank = ({ kind }: Event): number => (kind === "call" ? 0 : 1);
  return events.sort((left, right) => left.at - right.at || rank(left) - rank(right));
}

/** Every way to have `target` done by now. Undefined: too many. */
function afterReturn(
  configurations: readonly Configuration[],
  target: RegisterOperation,
  pending: ReadonlySet<RegisterOperation>,
  names: ReadonlyMap<RegisterOperation, number>,
): readonly Configuration[] | undefined {
  const reached = new Map<string, Configuration>();
  const seen = new Set<string>();
  const waiting = [...configurations];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const here = withReads(next, pending);
    const key = keyOf(here, names);
    if (seen.has(key)) continue;
    seen.add(key);
    if (seen.size > CONFIGURATIONS_MAX) return undefined;
    if (here.done.has(target)) {
      const done = new Set(here.done);
      done.delete(target);
      const left = { value: here.value, done };
      reached.set(keyOf(left, names), left);
    } else waiting.push(...steps(here, pending));
  }
  return [...reached.values()];
}

/** Reads change nothing: as soon as one can be done, it is. */
function withReads({ value, done }: Configuration, pending: ReadonlySet<RegisterOperation>): Configuration {
  const more = [...pending].filter((operation) => operation.kind === "read" && !done.has(operation) && operation.accepts(value));
  return more.length === 0 ? { value, done } : { value, done: new Set([...done, ...more]) };
}

/** One more write. Of removals with unknown outcome one is like another, and one that changes nothing is not needed. */
function steps({ value, done }: Configuration, pending: ReadonlySet<RegisterOperation>): Configuration[] {
  const next: Configuration[] = [];
  let hasRemoved = false;
  for (const operation of pending) {
    if (operation.kind === "read" || done.has(operation)) continue;
    if (operation.onlyIfAbsent === true && value !== undefined) continue;
    if (operation.endedAt === Number.POSITIVE_INFINITY && operation.value === undefined) {
      if (hasRemoved || value === undefined) continue;
      hasRemoved = true;
    }
    next.push({ value: operation.value, done: new Set([...done, operation]) });
  }
  return next;
}

function namesOf(history: readonly RegisterOperation[]): ReadonlyMap<RegisterOperation, number> {
  return new Map(history.map((operation, at) => [operation, at]));
}

function keyOf({ value, done }: Configuration, names: ReadonlyMap<RegisterOperation, number>): string {
  const numbers = [...done].map((operation) => names.get(operation)!).sort((left, right) => left - right);
  return `${value ?? ""}|${numbers.join()}`;
}

function anomaly(
  operation: RegisterOperation,
  configurations: readonly Configuration[],
  pending: ReadonlySet<RegisterOperation>,
): RegisterVerdict {
  const written = [...pending].flatMap((other) => (other.kind === "write" && other !== operation ? [other.value ?? "nothing"] : []));
  const possible = new Set([...configurations.map(({ value }) => value ?? "nothing"), ...written]);
  const found = operation.kind === "read" ? operation.found : `a write of ${operation.value ?? "nothing"}`;
  return { kind: "anomaly", operation: operation.name, found, possible: [...possible].sort() };
}
