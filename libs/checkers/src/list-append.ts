import { DependencyGraph, type Edge } from "./dependency-graph.ts";
import { findCycle, type Cycle } from "./find-cycle.ts";
import type { Anomaly, Element, Transaction } from "./list-append-history.ts";
import { withoutRangeReads } from "./range-reads.ts";
import { collectFacts, show, type ExternalRead, type Facts, type KeyFacts } from "./list-append-reads.ts";

export interface ListAppendReport {
  /** True: the history is strictly serializable. */
  readonly isValid: boolean;
  readonly anomalies: readonly Anomaly[];
  readonly edges: number;
}

/**
 * Is the history strictly serializable? Exact for list-append histories: when it answers no, the anomalies say why; when it
 * answers yes, an order of all acknowledged (and all seen) transactions exists that respects real time. Linear in the size of
 * the history, a range read counting as a read of each key in it; an invalid one costs more to explain. Throws when an element is appended twice to a key.
 */
export function checkListAppend(history: readonly Transaction[]): ListAppendReport {
  const transactions = withoutRangeReads(history);
  const facts = collectFacts(transactions);
  const graph = new DependencyGraph(transactions.length);
  for (const key of facts.keys.values()) {
    addVersionEdges(graph, key, facts);
    addReadEdges(graph, key);
    addUnreadEdges(graph, key, facts);
    findLostUpdates(facts, key, transactions);
  }
  addRealTimeEdges(graph, transactions, facts);
  graph.seal();
  const cycle = findCycle(graph);
  const anomalies = cycle === undefined ? facts.anomalies : [...facts.anomalies, describeCycle(graph, cycle, facts, transactions)];
  return { isValid: anomalies.length === 0, anomalies, edges: graph.edgeCount };
}

function addVersionEdges(graph: DependencyGraph, key: KeyFacts, facts: Facts): void {
  let before: number | undefined;
  for (const element of key.order) {
    const writer = key.writers.get(element)?.transaction;
    if (writer === undefined || facts.isCommitted[writer] !== true) continue;
    if (before !== undefined) graph.addEdge(before, writer, "ww", key.key);
    before = writer;
  }
}

function addReadEdges(graph: DependencyGraph, key: KeyFacts): void {
  for (const { transaction, elements, prefixLength } of key.reads) {
    if (prefixLength > 0) {
      const writer = key.writers.get(elements[prefixLength - 1]!);
      if (writer !== undefined) graph.addEdge(writer.transaction, transaction, "wr", key.key);
    }
    const next = key.order[prefixLength];
    const overwriter = next === undefined ? undefined : key.writers.get(next);
    if (overwriter !== undefined) graph.addEdge(transaction, overwriter.transaction, "rw", key.key);
  }
}

/**
 * Unread appends come after the longest read, in any order among themselves. A helper node keeps this linear: last
 * writer -> helper and readers of everything -> helper, helper -> each unread writer. A transaction on both sides
 * gets direct edges, none to itself.
 */
function addUnreadEdges(graph: DependencyGraph, key: KeyFacts, facts: Facts): void {
  const read = new Set<Element>(key.order);
  const unread = new Set<number>();
  for (const [element, { transaction }] of key.writers) {
    if (!read.has(element) && facts.isCommitted[transaction] === true) unread.add(transaction);
  }
  if (unread.size === 0) return;
  const helper = graph.addNode();
  for (const writer of unread) graph.addEdge(helper, writer, "via", key.key);
  let direct = 0;
  const join = (from: number, type: "ww" | "rw"): void => {
    if (!unread.has(from)) {
      graph.addEdge(from, helper, type, key.key);
      return;
    }
    direct += 1;
    // Two that read everything and append unread already make a cycle with each other: more pairs add nothing but time.
    if (direct > MAX_DIRECT_JOINS) return;
    for (const writer of unread) graph.addEdge(from, writer, type, key.key);
  };
  const last = key.order.at(-1);
  const lastWriter = last === undefined ? undefined : key.writers.get(last)?.transaction;
  if (lastWriter !== undefined) join(lastWriter, "ww");
  for (const { transaction, prefixLength } of key.reads) if (prefixLength === key.order.length) join(transaction, "rw");
}

const MAX_DIRECT_JOINS = 3;

/** Two transactions read the same version of a key and both append to it: one did not see the other. */
function findLostUpdates(facts: Facts, key: KeyFacts, transactions: readonly Transaction[]): void {
  const appenders = new Set<number>();
  for (const { transaction } of key.writers.values()) appenders.add(transaction);
  const byVersion = new Map<number, ExternalRead>();
  for (const read of key.reads) {
    if (!appenders.has(read.transaction)) continue;
    const other = byVersion.get(read.prefixLength);
    if (other === undefined) {
      byVersion.set(read.prefixLength, read);
      continue;
    }
    const names = [transactions[other.transaction]!.name, transactions[read.transaction]!.name];
    const version = show(read.elements.slice(0, read.prefixLength));
    facts.anomalies.push({
      kind: "lost-update",
      transactions: names,
      explanation: [`${names.join(" and ")} both read ${version} of ${key.key} and both appended to it`],
    });
    return;
  }
}

/** One helper node per group of completions that an invocation follows: linear, and exact. At equal times all are concurrent. */
function addRealTimeEdges(graph: DependencyGraph, transactions: readonly Transaction[], facts: Facts): void {
  const events: { readonly at: number; readonly isEnd: boolean; readonly transaction: number }[] = [];
  transactions.forEach(({ startedAt, endedAt, outcome }, transaction) => {
    if (facts.isCommitted[transaction] !== true) return;
    events.push({ at: startedAt, isEnd: false, transaction });
    if (outcome === "ok") events.push({ at: endedAt, isEnd: true, transaction });
  });
  events.sort((left, right) => left.at - right.at || Number(left.isEnd) - Number(right.isEnd));
  let finished: number[] = [];
  let barrier: number | undefined;
  for (const { isEnd, transaction } of events) {
    if (isEnd) {
      finished.push(transaction);
      continue;
    }
    if (finished.length > 0) {
      const next = graph.addNode();
      if (barrier !== undefined) graph.addEdge(barrier, next, "rt");
      for (const each of finished) graph.addEdge(each, next, "rt");
      finished = [];
      barrier = next;
    }
    if (barrier !== undefined) graph.addEdge(barrier, transaction, "rt");
  }
}

function describeCycle(graph: DependencyGraph, cycle: Cycle, facts: Facts, transactions: readonly Transaction[]): Anomaly {
  const steps = stepsOf(graph, cycle, transactions.length);
  const names = steps.map(({ from }) => transactions[from]!.name);
  const explanation = steps.map(({ from, to, type, key }) => {
    const left = transactions[from]!.name;
    const right = transactions[to]!.name;
    return `${left} < ${right}: ${describeStep(left, right, type, key === undefined ? undefined : facts.keys.get(key), from, to)}`;
  });
  return { kind: cycle.usesRealTime ? `${cycle.kind}-realtime` : cycle.kind, transactions: names, explanation };
}

/** The cycle's steps between transactions: helper nodes drop out. */
function stepsOf(graph: DependencyGraph, cycle: Cycle, transactionCount: number): Edge[] {
  const edges = cycle.edges.map((edge) => graph.edge(edge));
  const start = edges.findIndex(({ from }) => from < transactionCount);
  const rotated = [...edges.slice(start), ...edges.slice(0, start)];
  const steps: Edge[] = [];
  for (const edge of rotated) {
    const open = steps.at(-1);
    if (open !== undefined && open.to >= transactionCount) steps[steps.length - 1] = { ...open, to: edge.to };
    else steps.push(edge);
  }
  return steps;
}

function describeStep(left: string, right: string, type: Edge["type"], key: KeyFacts | undefined, from: number, to: number): string {
  const mine = (transaction: number): string => {
    const elements = key === undefined ? [] : [...key.writers].filter(([, writer]) => writer.transaction === transaction);
    return elements.map(([element]) => String(element)).join(", ");
  };
  const name = key?.key ?? "";
  switch (type) {
    case "ww":
      return `${right} appended ${mine(to)} to ${name} after ${left}'s ${mine(from)} (ww)`;
    case "wr":
      return `${right} read ${left}'s ${mine(from)} in ${name} (wr)`;
    case "rw":
      return `${left} read ${name} without ${right}'s ${mine(to)} (rw)`;
    case "rt":
    case "via":
      return `${left} was acknowledged before ${right} began (real time)`;
  }
}
