// `concord cql`: statements of an argument, a file or a terminal, one after the other.
import { createReadStream } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { ConcordClientError, type ConcordClient } from "@concord/client";
import { SCHEMA_LIMITS } from "@concord/schema";
import { command, numberOption, textOption, type CommandIo, type ExitCode } from "./command.ts";
import { CONNECTION_HELP, CONNECTION_OPTIONS, errorText, withClient } from "./connection.ts";
import { CqlSession, StatementError, type Answer } from "./cql-session.ts";
import { cutStatements } from "./statements.ts";
import { cellText, jsonLine, textTable } from "./text-table.ts";

const ROWS_DEFAULT = 100;
const ROWS_MAX = 1000;
const HISTORY_FILE = ".concord_history";
const HISTORY_LINES = 1000;
const FILE_MODE = 0o600;

const SHELL_HELP = `statements end with ;
  SELECT ... INSERT ... UPDATE ... DELETE ... BEGIN BATCH ... CREATE TABLE ... CREATE INDEX ...
  BEGIN;  COMMIT;  ROLLBACK;       a transaction; the first row it names picks its group
  DESCRIBE TABLES;  DESCRIBE NAME;  tables, and the columns of one
  HELP;  EXIT;`;

const HELP = `usage: concord cql [STATEMENTS] [--file FILE] [--rows N] [--json] [connection]

Runs CQL: STATEMENTS, those of a file, those of standard input, or a shell where standard input is a terminal. Statements end with ;.
BEGIN, COMMIT and ROLLBACK make a transaction of those between them: the first one names a row by its whole key, which picks the group that all rows are of;
after 5 s without a statement, or 30 s in all, it is rolled back. DESCRIBE TABLES and DESCRIBE NAME show the schema.

  --file FILE           statements of a file; - is standard input
  --rows N              rows of a SELECT that are printed (default ${ROWS_DEFAULT}, at most ${ROWS_MAX})
  --json                a JSON object a line: each row, or what a statement did
${CONNECTION_HELP}

Exit code 0: all was done. 1: a statement failed; those behind it were not run, and an open transaction was rolled back. 2: wrong arguments, or no server answers.

examples:
  concord cql "DESCRIBE TABLES"
  concord cql "BEGIN; UPDATE seats SET free = 2 WHERE flight = 'CC 7'; COMMIT"
  concord cql --json "SELECT * FROM seats WHERE flight = 'CC 7'" --address 10.0.0.5:7101
`;

interface Printing {
  readonly json: boolean;
  readonly io: CommandIo;
}

export const cqlCommand = command(
  {
    name: "cql",
    summary: "CQL: a shell, a file or one statement",
    help: HELP,
    options: { ...CONNECTION_OPTIONS, file: { type: "string" }, rows: { type: "string" }, json: { type: "boolean" } },
  },
  async ({ values, positionals }, io) => {
    const rowsMax = numberOption(values, "rows", { min: 1, max: ROWS_MAX }) ?? ROWS_DEFAULT;
    const file = textOption(values, "file");
    const printing = { json: values["json"] === true, io };
    return await withClient("cql", values, "rows", io, async (db) => {
      const session = new CqlSession(db, rowsMax);
      try {
        if (positionals.length > 0) return await runAll(session, positionals.join(" "), printing);
        if (file !== undefined && file !== "-") return await runFile(session, file, printing);
        return io.isTerminal && file === undefined ? await runShell(session, db, printing) : await runStream(session, io.input, printing);
      } finally {
        await session.close();
      }
    });
  },
);

/** Ends at the first statement that fails. */
async function runAll(session: CqlSession, text: string, printing: Printing): Promise<ExitCode> {
  const { statements, rest, hasRest } = cutStatements(text);
  for (const statement of hasRest ? [...statements, rest.trim()] : statements) {
    if (!(await runOne(session, statement, printing))) return 1;
  }
  return endOf(session, printing);
}

async function runFile(session: CqlSession, file: string, printing: Printing): Promise<ExitCode> {
  return await runStream(session, createReadStream(file, "utf8"), printing);
}

/** Each statement as soon as it is whole: input of any length needs no more memory than its longest statement. */
async function runStream(session: CqlSession, stream: NodeJS.ReadableStream, printing: Printing): Promise<ExitCode> {
  stream.setEncoding("utf8");
  let text = "";
  for await (const chunk of stream) {
    text += chunk as string;
    const { statements, rest } = cutStatements(text);
    for (const statement of statements) if (!(await runOne(session, statement, printing))) return 1;
    text = rest;
    // The parser refuses it, with its limit.
    if (text.length > SCHEMA_LIMITS.statementLengthMax) break;
  }
  return await runAll(session, text, printing);
}

/** A transaction without COMMIT is no success: what it was to write is not there. */
function endOf(session: CqlSession, { io }: Printing): ExitCode {
  if (!session.isInTransaction) return 0;
  io.err("concord cql: the transaction had no COMMIT, so it is rolled back");
  return 1;
}

/** False: it failed, and the reason was printed. */
async function runOne(session: CqlSession, statement: string, { json, io }: Printing): Promise<boolean> {
  try {
    const answer = await session.execute(statement);
    for (const line of json ? jsonLines(answer) : [tableText(answer)]) io.out(line);
    return true;
  } catch (thrown) {
    const text = thrown instanceof StatementError ? thrown.message : errorText(thrown);
    const code = thrown instanceof ConcordClientError ? thrown.code : "STATEMENT_REFUSED";
    io.err(json ? jsonLine({ error: code, message: text }) : text);
    return false;
  }
}

function jsonLines(answer: Answer): readonly string[] {
  return answer.kind === "rows" ? answer.rows.map(jsonLine) : [jsonLine({ done: answer.text })];
}

function tableText(answer: Answer): string {
  if (answer.kind === "done") return answer.text;
  const { columns, rows, hasMore } = answer;
  const count = `(${rows.length} ${rows.length === 1 ? "row" : "rows"}${hasMore ? ", and more: --rows N prints up to N" : ""})`;
  if (rows.length === 0) return count;
  const cells = rows.map((row) => columns.map((name) => cellText(row[name])));
  return `${textTable(columns, cells)}\n${count}`;
}

/** A failed statement does not end it; end of input does. */
async function runShell(session: CqlSession, db: ConcordClient, printing: Printing): Promise<ExitCode> {
  const { input, output, out, stopSignal } = printing.io;
  const file = join(homedir(), HISTORY_FILE);
  const history = (await readFile(file, "utf8").catch(() => "")).split("\n").filter((line) => line !== "");
  const lines = createInterface({
    input,
    output,
    history: history.toReversed(),
    historySize: HISTORY_LINES,
    removeHistoryDuplicates: true,
  });
  let isOpen = true;
  lines.once("close", () => (isOpen = false));
  lines.on("SIGINT", () => lines.close());
  stopSignal().addEventListener("abort", () => lines.close(), { once: true });
  out(`connected to ${db.topology.coordinators.map(({ name }) => name).join(", ")}; HELP; shows what there is, EXIT; ends`);
  const prompt = (text: string): void => {
    if (!isOpen) return;
    lines.setPrompt(text !== "" ? "...> " : session.isInTransaction ? "cql*> " : "cql> ");
    lines.prompt();
  };
  try {
    let text = "";
    prompt(text);
    for await (const line of lines) {
      if (line.trim() !== "" && line !== history.at(-1)) history.push(line);
      const { statements, rest, hasRest } = cutStatements(`${text}${line}\n`);
      text = hasRest ? rest : "";
      if (!(await runTyped(session, statements, printing))) break;
      prompt(text);
    }
  } finally {
    lines.close();
    // Typed statements may hold data.
    const kept = history.slice(-HISTORY_LINES).map((line) => `${line}\n`);
    await writeFile(file, kept.join(""), { mode: FILE_MODE }).catch(() => undefined);
  }
  return 0;
}

/** False: EXIT. */
async function runTyped(session: CqlSession, statements: readonly string[], printing: Printing): Promise<boolean> {
  for (const statement of statements) {
    const word = statement.toLowerCase();
    if (word === "exit" || word === "quit") return false;
    if (word === "help") printing.io.out(SHELL_HELP);
    else if (!(await runOne(session, statement, printing))) break;
  }
  return true;
}
