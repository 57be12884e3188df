import { compareBytes } from "@concord/codec";
import type { MetadataCommit, MetadataOutcome, MetadataRange, MetadataRow, ObjectMetadata } from "@concord/ports";
import { ObjectMetadataService } from "@concord/protos-storage";
import {
  objectAmountsFromWire,
  objectConditionToWire,
  objectOutcomeFromWire,
  objectRowFromWire,
  objectRowsFromWire,
  objectWriteToWire,
} from "@concord/rows-wire";
import { ConcordError, toConcordError } from "@concord/runtime";
import { METADATA_PAGE_ROWS, METADATA_READ_KEYS, METADATA_TIMEOUT_MS } from "./limits.ts";
import { ProxyCalls, type ProxyChannels } from "./proxy-calls.ts";
import { malformedAnswer } from "./storage-proxy-rows.ts";

/** Rows of objects through a storage-proxy whose engine has them (OGD15): UNIMPLEMENTED where it has not. */
export class StorageProxyMetadata implements ObjectMetadata {
  readonly #calls: ProxyCalls<ObjectMetadataService>;

  constructor(channels: ProxyChannels) {
    this.#calls = new ProxyCalls(channels, ObjectMetadataService);
  }

  async read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]> {
    const rows: (MetadataRow | undefined)[] = [];
    while (rows.length < keys.length) {
      const part = keys.slice(rows.length, rows.length + METADATA_READ_KEYS);
      const response = await this.#reading(() => this.#calls.call("readObjectRows", { partition, keys: part }, METADATA_TIMEOUT_MS));
      const count = response.rows.length;
      if (count === 0 || count > part.length) throw malformedAnswer("readObjectRows", `${count} rows for ${part.length} keys`);
      rows.push(...objectRowsFromWire(response.rows));
    }
    return rows;
  }

  async range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]> {
    const rows: MetadataRow[] = [];
    let { from, to } = range;
    const reverse = range.reverse ?? false;
    while (rows.length < range.limit && compareBytes(from, to) < 0) {
      const request = { partition, from, to, limit: Math.min(METADATA_PAGE_ROWS, range.limit - rows.length), reverse };
      const page = await this.#reading(() => this.#calls.call("readObjectRange", request, METADATA_TIMEOUT_MS));
      rows.push(...page.rows.map(objectRowFromWire));
      const last = rows.at(-1);
      if (!page.more || last === undefined) break;
      if (reverse) to = last.key;
      else from = Uint8Array.from([...last.key, 0]);
    }
    return rows;
  }

  async readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]> {
    const { amounts } = await this.#reading(() => this.#calls.call("readObjectCounters", { partition, key }, METADATA_TIMEOUT_MS));
    return objectAmountsFromWire(amounts);
  }

  async commit({ partition, conditions, writes }: MetadataCommit): Promise<MetadataOutcome> {
    const request = { partition, conditions: conditions.map(objectConditionToWire), writes: writes.map(objectWriteToWire) };
    try {
      const outcome = objectOutcomeFromWire(await this.#calls.callOnce("commitObjectRows", request, METADATA_TIMEOUT_MS));
      if (outcome === undefined) throw malformedAnswer("commitObjectRows", "nothing");
      return outcome;
    } catch (thrown) {
      const error = toConcordError(thrown);
      if (error.applied === "no") throw error;
      return { kind: "unknown", cause: error };
    }
  }

  close(): void {
    this.#calls.close();
  }

  /** A read that failed has written nothing, whatever a lost answer says of itself. */
  async #reading<Answer>(read: () => Promise<Answer>): Promise<Answer> {
    try {
      return await read();
    } catch (thrown) {
      const { code, message, metadata } = toConcordError(thrown);
      throw new ConcordError(code, message, { applied: "no", metadata, cause: thrown });
    }
  }
}
