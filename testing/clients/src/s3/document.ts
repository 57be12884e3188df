// docs/s3-operations.md: what every operation of the S3 API reference answers, and which client was seen to call it.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { RAW, WORKS } from "./callers.ts";
import type { Observation } from "./observe.ts";
import type { Group } from "./operation.ts";

export const DOCUMENT = resolve(import.meta.dirname, "../../../../docs/s3-operations.md");
export const RECORD = join(import.meta.dirname, "recorded.json");

/** The operations that each client of `npm run clients` was seen to use with success, by the client's name and version. */
export type Recorded = Readonly<Record<string, readonly string[]>>;
export const recorded = (): Recorded => JSON.parse(readFileSync(RECORD, "utf8")) as Recorded;

const HEAD = `# S3: every operation, and which client uses it

Written by \`node testing/clients/src/s3/write-document.ts\` from what tests saw; do not edit. \`testing/clients/src/s3/operations.test.ts\` calls every operation of the
API reference (every command of the newest AWS SDK for JavaScript, browser forms and preflights) by two generations of that SDK and by requests
written by hand, and fails when this page says otherwise. The other clients are those of \`npm run clients\`, each through an everyday script against
a gateway of its own, which says what it served: an operation is named only if it succeeded.

An operation *works* when it succeeded and its answer said what was set. Anything else is the error that clients get. Which parameters and headers
an operation honours: \`apps/object-gateway/src/http/routes.ts\`; what differs from S3: [the gateway's README](../apps/object-gateway/README.md#departures).
`;

interface Row {
  readonly name: string;
  readonly group: Group;
  readonly seen: readonly Observation[];
}

export function documentOf(all: readonly Observation[], clients: Recorded): string {
  const rows = rowsOf(all);
  const groups = [...new Set(rows.map(({ group }) => group))];
  return [HEAD, countsOf(all, rows, groups, clients), ...groups.map((group) => tableOf(group, rows, clients)), ""].join("\n");
}

function rowsOf(all: readonly Observation[]): readonly Row[] {
  const names = [...new Set(all.map(({ operation }) => operation.name))];
  return names.map((name) => {
    const seen = all.filter(({ operation }) => operation.name === name);
    return { name, group: seen[0]!.operation.group, seen };
  });
}

const isServed = ({ seen }: Row): boolean =>
  seen.some(({ answer, operation }) => answer === WORKS || isOfAbsentSetting(answer, operation.name));
const isOfAbsentSetting = (answer: string, name: string): boolean => name.startsWith("Get") && answer.startsWith("404 ");
const usersOf = ({ name }: Row, clients: Recorded): readonly string[] =>
  Object.keys(clients).filter((client) => clients[client]!.includes(name));

function countsOf(all: readonly Observation[], rows: readonly Row[], groups: readonly Group[], clients: Recorded): string {
  const lines = groups.map((group) => {
    const own = rows.filter((row) => row.group === group);
    const cases = all.filter(({ operation }) => operation.group === group);
    const raw = cases.filter(({ caller }) => caller === RAW).length;
    const others = own.reduce((sum, row) => sum + usersOf(row, clients).length, 0);
    return [group, own.length, own.filter(isServed).length, cases.length - raw, raw, others] as const;
  });
  const sums = [1, 2, 3, 4, 5].map((at) => lines.reduce((sum, line) => sum + Number(line[at]), 0));
  return [
    "## Cases per group\n",
    "| group | operations | served | cases by SDKs | raw cases | uses by other clients |",
    "|---|---|---|---|---|---|",
    ...[...lines, ["all", ...sums]].map((line) => `| ${line.join(" | ")} |`),
    "",
  ].join("\n");
}

function tableOf(group: Group, rows: readonly Row[], clients: Recorded): string {
  const own = rows.filter((row) => row.group === group);
  const lines = own.map((row) => `| ${row.name} | ${answerOf(row)} | ${callersOf(row, clients).join(", ")} |`);
  return [
    `## ${group.slice(0, 1).toUpperCase()}${group.slice(1)}\n`,
    "| operation | answer | seen by |",
    "|---|---|---|",
    ...lines,
    "",
  ].join("\n");
}

/** One for all callers, or each with who got it. */
function answerOf({ seen }: Row): string {
  const answers = [...new Set(seen.map(({ answer }) => answer))];
  if (answers.length === 1) return answers[0]!;
  const named = answers.map(
    (answer) => `${answer} (${[...new Set(seen.filter((one) => one.answer === answer).map(({ caller }) => caller))].join(", ")})`,
  );
  return named.join("; ");
}

function callersOf(row: Row, clients: Recorded): readonly string[] {
  return [...new Set(row.seen.map(({ caller }) => caller)), ...usersOf(row, clients)];
}
