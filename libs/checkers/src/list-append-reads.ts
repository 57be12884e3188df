import type { Anomaly, AnomalyKind, Element } from "./list-append-history.ts";
import type { PointTransaction } from "./range-reads.ts";

/** Who appended an element. */
export interface Writer {
  readonly transaction: number;
  /** The transaction's last append to the key: the only one others may see the list end with. */
  readonly isFinal: boolean;
}

/** The first read of a key in a transaction, without the transaction's own elements at its end. */
export interface ExternalRead {
  readonly transaction: number;
  readonly elements: readonly Element[];
  /** How many of `elements` were there before the transaction's own. */
  readonly prefixLength: number;
}

export interface KeyFacts {
  readonly key: string;
  readonly writers: Map<Element, Writer>;
  readonly reads: ExternalRead[];
  /** The longest read: the order of the versions. */
  order: readonly Element[];
  orderFrom: number;
}

export interface Facts {
  readonly keys: Map<string, KeyFacts>;
  /** Per transaction: acknowledged, or unknown and seen by a read. */
  readonly isCommitted: boolean[];
  readonly anomalies: Anomaly[];
}

/** Reads the history once: writers, version orders, and every anomaly that shows without a graph. */
export function collectFacts(transactions: readonly PointTransaction[]): Facts {
  const facts: Facts = { keys: new Map(), isCommitted: transactions.map(({ outcome }) => outcome === "ok"), anomalies: [] };
  transactions.forEach((transaction, index) => collectWriters(facts, transaction, index));
  transactions.forEach((transaction, index) => {
    if (transaction.outcome === "ok") collectReads(facts, transaction, index);
  });
  for (const key of facts.keys.values()) {
    checkPrefixes(facts, key, transactions);
    checkOrder(facts, key, transactions);
  }
  return facts;
}

function keyFacts(facts: Facts, key: string): KeyFacts {
  let known = facts.keys.get(key);
  if (known === undefined) {
    known = { key, writers: new Map(), reads: [], order: [], orderFrom: -1 };
    facts.keys.set(key, known);
  }
  return known;
}

function collectWriters(facts: Facts, transaction: PointTransaction, index: number): void {
  const last = new Map<string, Element>();
  for (const operation of transaction.operations) {
    if (operation.kind === "append") last.set(operation.key, operation.element);
  }
  for (const operation of transaction.operations) {
    if (operation.kind !== "append") continue;
    const { writers } = keyFacts(facts, operation.key);
    if (writers.has(operation.element)) {
      throw new Error(`not a history: ${String(operation.element)} is appended twice to ${operation.key}`);
    }
    writers.set(operation.element, { transaction: index, isFinal: last.get(operation.key) === operation.element });
  }
}

/** What a transaction must see of a key after its first look at it. */
interface Expectation {
  /** Own elements so far; before the first read they must end it. */
  readonly own: Element[];
  known: Element[] | undefined;
}

function collectReads(facts: Facts, transaction: PointTransaction, index: number): void {
  const expectations = new Map<string, Expectation>();
  for (const operation of transaction.operations) {
    const expected = expectations.get(operation.key) ?? { own: [], known: undefined };
    expectations.set(operation.key, expected);
    if (operation.kind === "append") {
      expected.own.push(operation.element);
      expected.known?.push(operation.element);
      continue;
    }
    const { key, elements } = operation;
    if (elements === undefined) continue;
    if (expected.known === undefined) {
      firstRead(facts, transaction, index, keyFacts(facts, key), elements, expected.own);
      expected.known = [...elements];
    } else if (!areEqual(expected.known, elements)) {
      report(
        facts,
        "internal",
        [transaction.name],
        `${transaction.name} should see ${show(expected.known)} in ${key}, saw ${show(elements)}`,
      );
    }
  }
}

function firstRead(
  facts: Facts,
  transaction: PointTransaction,
  index: number,
  key: KeyFacts,
  elements: readonly Element[],
  own: readonly Element[],
): void {
  const { name } = transaction;
  const prefixLength = elements.length - own.length;
  if (!areEqual(elements.slice(Math.max(0, prefixLength)), own)) {
    report(facts, "internal", [name], `${name} appended ${show(own)} to ${key.key}, then read ${show(elements)}`);
    return;
  }
  const external = elements.slice(0, prefixLength);
  const future = external.find((element) => key.writers.get(element)?.transaction === index);
  if (future !== undefined) {
    report(facts, "future-read", [name], `${name} reads ${String(future)} of ${key.key}, which it appends only later`);
    return;
  }
  if (new Set(elements).size !== elements.length) {
    report(facts, "duplicate-elements", [name], `${name} read ${show(elements)} of ${key.key}`);
    return;
  }
  key.reads.push({ transaction: index, elements, prefixLength });
  if (elements.length > key.order.length || key.orderFrom === -1) {
    key.order = elements;
    key.orderFrom = index;
  }
}

function checkPrefixes(facts: Facts, key: KeyFacts, transactions: readonly PointTransaction[]): void {
  const longest = transactions[key.orderFrom];
  for (const { transaction, elements, prefixLength } of key.reads) {
    const reader = transactions[transaction]!;
    if (!elements.every((element, position) => key.order[position] === element)) {
      const text = `${reader.name} read ${show(elements)} of ${key.key}, ${longest!.name} read ${show(key.order)}: neither begins with the other`;
      report(facts, "incompatible-order", [reader.name, longest!.name], text);
    }
    const last = prefixLength > 0 ? elements[prefixLength - 1] : undefined;
    const writer = last === undefined ? undefined : key.writers.get(last);
    if (writer === undefined || writer.isFinal || writer.transaction === transaction) continue;
    const writerName = transactions[writer.transaction]!.name;
    report(
      facts,
      "G1b",
      [writerName, reader.name],
      `${reader.name} read ${key.key} ending in ${String(last)}, not ${writerName}'s last append to it`,
    );
  }
}

/** Every element of every read, once: who wrote it, and was it ever committed? */
function checkOrder(facts: Facts, key: KeyFacts, transactions: readonly PointTransaction[]): void {
  const seen = new Map<Element, number>();
  for (const read of key.reads) {
    // Reads that begin the version order bring no element that the order does not have.
    if (read.transaction !== key.orderFrom && isPrefix(read.elements, key.order)) continue;
    for (const element of read.elements) if (!seen.has(element)) seen.set(element, read.transaction);
  }
  let failed: string | undefined;
  for (const [element, reader] of seen) {
    const readerName = transactions[reader]!.name;
    const writer = key.writers.get(element);
    if (writer === undefined) {
      report(facts, "garbage-read", [readerName], `${readerName} read ${String(element)} of ${key.key}, which no transaction appended`);
      continue;
    }
    const { name, outcome } = transactions[writer.transaction]!;
    switch (outcome) {
      case "fail":
        report(facts, "G1a", [name, readerName], `${readerName} read ${String(element)} of ${key.key}, appended by ${name}, which failed`);
        failed = name;
        break;
      case "info":
      case "ok":
        facts.isCommitted[writer.transaction] = true;
        if (failed !== undefined && outcome === "ok") {
          report(
            facts,
            "dirty-update",
            [failed, name],
            `${name} appended ${String(element)} to ${key.key} after an element of ${failed}, which failed`,
          );
          failed = undefined;
        }
        break;
    }
  }
}

function isPrefix(short: readonly Element[], long: readonly Element[]): boolean {
  return short.length <= long.length && short.every((element, position) => long[position] === element);
}

function areEqual(left: readonly Element[], right: readonly Element[]): boolean {
  return left.length === right.length && left.every((element, position) => element === right[position]);
}

const SHOWN_ELEMENTS = 12;

export function show(elements: readonly Element[]): string {
  if (elements.length <= SHOWN_ELEMENTS) return `[${elements.join(" ")}]`;
  return `[... ${elements.slice(-SHOWN_ELEMENTS).join(" ")}] (${elements.length})`;
}

function report(facts: Facts, kind: AnomalyKind, transactions: readonly string[], line: string): void {
  facts.anomalies.push({ kind, transactions, explanation: [line] });
}
