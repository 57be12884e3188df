import type { Row, RowKey, RowStore } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { ConcordError, Rounds, toConcordError, type Log } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import { catalogueOf, type SchemaCatalogue } from "./catalogue.ts";
import { definitionFromJson } from "./definition-json.ts";
import type { TableDefinition } from "./definition.ts";
/** Where the schema is kept: one row per table, and one with the version they belong to. */
export const TABLES_RANGE = { table: "concord_tables", partition: [{ kind: "text", value: "tables" }], reverse: false } as const;
export const SCHEMA_VERSION_KEY: RowKey = { table: "concord_versions", partition: [{ kind: "text", value: "schema" }], clustering: [] };
export const TABLES_PAGE_ROWS = 200;

export interface SchemaCacheOptions {
  readonly rows: RowStore;
  readonly timeoutMs: number;
  readonly log: Log;
}

/** The schema as committed and applied, read again at quorum when a caller needs a newer version (TX3). */
export class SchemaCache {
  readonly #options: SchemaCacheOptions;
  #catalogue: SchemaCatalogue = catalogueOf(0n, []);
  readonly #reads = new Rounds(() => this.#load());

  constructor(options: SchemaCacheOptions) {
    this.#options = options;
  }

  get catalogue(): SchemaCatalogue {
    return this.#catalogue;
  }

  /** What is known, if that is enough: then nothing has to be waited for and calls keep their order. */
  known(tables: readonly string[], version: bigint): SchemaCatalogue | undefined {
    const catalogue = this.#catalogue;
    return catalogue.version >= version && tables.every((table) => catalogue.tables.has(table)) ? catalogue : undefined;
  }

  /** The schema with at least `version` and all the tables named, as far as they exist. SCHEMA_BEHIND. */
  async having(tables: readonly string[], version: bigint): Promise<SchemaCatalogue> {
    const known = this.known(tables, version);
    if (known !== undefined) return known;
    await this.reload();
    if (this.#catalogue.version < version) {
      const metadata = { known: String(this.#catalogue.version), asked: String(version) };
      throw new ConcordError("SCHEMA_BEHIND", `schema version ${version} is not known here yet`, { metadata });
    }
    return this.#catalogue;
  }

  /** Reads again; calls that come while a read runs share the next one, which starts after it. */
  reload(): Promise<void> {
    return this.#reads.join();
  }

  /** The version first: the tables read after it are at least that new. */
  async #load(): Promise<void> {
    const { rows, timeoutMs } = this.#options;
    const [stored] = await rows.read([SCHEMA_VERSION_KEY], { timeoutMs });
    const version = liveRow(stored)?.columns.get("version");
    const definitions = await this.#readTables();
    const next = catalogueOf(version?.kind === "bigint" ? version.value : 0n, definitions);
    if (next.version >= this.#catalogue.version) this.#catalogue = next;
  }

  async #readTables(): Promise<TableDefinition[]> {
    const { rows, timeoutMs, log } = this.#options;
    const definitions: TableDefinition[] = [];
    let after: readonly CellValue[] | undefined;
    do {
      const range = { ...TABLES_RANGE, limit: TABLES_PAGE_ROWS, ...(after === undefined ? {} : { after }) };
      const page = await rows.readRange(range, { timeoutMs });
      for (const image of page.rows) {
        const definition = definitionOfRow(liveRow(image), log);
        if (definition !== undefined) definitions.push(definition);
      }
      after = page.next;
    } while (after !== undefined);
    return definitions;
  }
}

/** A definition that does not decode makes its own table unknown, loudly, and no other. */
export function definitionOfRow(row: Row | undefined, log: Log): TableDefinition | undefined {
  const text = row?.columns.get("definition");
  try {
    return text?.kind === "text" ? definitionFromJson(text.value) : undefined;
  } catch (thrown) {
    log.error("a table definition is corrupt", { reason: toConcordError(thrown).message });
    return undefined;
  }
}
