import { liveRow, type CellValue, type Row, type RowStore } from "@concord/ports";
import { ConcordError, type Log } from "@concord/runtime";
import { catalogueOf, definitionFromJson, type SchemaCatalogue, type TableDefinition } from "@concord/schema";

const TABLES_PAGE_ROWS = 200;
export const TABLES_TABLE = "concord_tables";
export const VERSIONS_TABLE = "concord_versions";
export const TABLES_PARTITION: readonly CellValue[] = [{ kind: "text", value: "tables" }];
export const SCHEMA_VERSION_PARTITION: readonly CellValue[] = [{ kind: "text", value: "schema" }];

export interface SchemaCacheOptions {
  readonly rows: RowStore;
  readonly timeoutMs: number;
  readonly log: Log;
}

/** The schema as rows of the ring say, read at quorum when somebody needs more than is known (TX3). */
export class SchemaCache {
  readonly #options: SchemaCacheOptions;
  #catalogue: SchemaCatalogue = catalogueOf(0n, []);
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(options: SchemaCacheOptions) {
    this.#options = options;
  }

  get catalogue(): SchemaCatalogue {
    return this.#catalogue;
  }

  /** The schema with at least `version` and all the tables named, as far as they exist. SCHEMA_BEHIND. */
  async having(tables: readonly string[], version: bigint): Promise<SchemaCatalogue> {
    const known = this.#catalogue;
    if (known.version >= version && tables.every((table) => known.tables.has(table))) return known;
    await this.reload();
    if (this.#catalogue.version < version) {
      const metadata = { known: String(this.#catalogue.version), asked: String(version) };
      throw new ConcordError("SCHEMA_BEHIND", `schema version ${version} is not known here yet`, { metadata });
    }
    return this.#catalogue;
  }

  /** Reads again; whoever asks while a read runs shares the next one, which starts after it. */
  reload(): Promise<void> {
    if (this.#running === undefined) {
      this.#running = this.#load().finally(() => (this.#running = undefined));
      return this.#running;
    }
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.reload();
      });
    return this.#next;
  }

  /** The version first: the tables read after it are at least that new. */
  async #load(): Promise<void> {
    const { rows, timeoutMs } = this.#options;
    const [stored] = await rows.read([{ table: VERSIONS_TABLE, partition: SCHEMA_VERSION_PARTITION, clustering: [] }], { timeoutMs });
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
      const range = { table: TABLES_TABLE, partition: TABLES_PARTITION, reverse: false, limit: TABLES_PAGE_ROWS };
      const page = await rows.readRange(after === undefined ? range : { ...range, after }, { timeoutMs });
      for (const image of page.rows) {
        const definition = definitionOf(liveRow(image), log);
        if (definition !== undefined) definitions.push(definition);
      }
      after = page.next;
    } while (after !== undefined);
    return definitions;
  }
}

/** A definition that does not decode makes its own table unknown, loudly, and no other. */
function definitionOf(row: Row | undefined, log: Log): TableDefinition | undefined {
  const text = row?.columns.get("definition");
  try {
    return text?.kind === "text" ? definitionFromJson(text.value) : undefined;
  } catch (thrown) {
    log.error("a table definition is corrupt", { reason: thrown instanceof Error ? thrown.message : String(thrown) });
    return undefined;
  }
}
