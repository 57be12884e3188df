import type { AppendRequest, GroupOwner } from "@concord/ports";
import type { Epoch, Seq, TimestampUs } from "@concord/runtime";
import { ENTRY, HEADER, HEADER_COLUMNS, HEADER_SEQ } from "./group-log-record.ts";
import type { Statement } from "./session.ts";
import { GROUP_LOG_TABLE } from "./tables.ts";

/** What of the header moves forward with an append: never below what it was (the conditions say so). */
export interface Marks {
  readonly ceilingUs: TimestampUs;
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
}

/**
 * The statements of the group log (TXC1): the table is written by lightweight transactions only, without timestamps of its own and without
 * TTL, and read at SERIAL only. Conditions are on the header row, which is read by its name; the columns they name come back when refused.
 */
export class GroupLogStatements {
  readonly #table: string;

  constructor(keyspace: string) {
    this.#table = `${keyspace}.${GROUP_LOG_TABLE}`;
  }

  readHeader(group: string): Statement {
    const query = `SELECT ${HEADER_COLUMNS} FROM ${this.#table} WHERE group_name = ? AND kind = ? AND seq = ?`;
    return { query, parameters: [group, HEADER, HEADER_SEQ] };
  }

  readTail(group: string, afterSeq: Seq): Statement {
    const query = `SELECT seq, epoch, content_id, content, content_rows FROM ${this.#table} WHERE group_name = ? AND kind = ? AND seq > ?`;
    return { query, parameters: [group, ENTRY, afterSeq] };
  }

  /** The entry at `seq` and the one before, without their content. */
  readHeld(group: string, seq: Seq): Statement {
    const query = `SELECT seq, epoch, content_id FROM ${this.#table} WHERE group_name = ? AND kind = ? AND seq >= ? AND seq <= ?`;
    return { query, parameters: [group, ENTRY, seq - 1n, seq] };
  }

  createHeader({ group, epoch, owner }: GroupOwner): readonly Statement[] {
    const query = `INSERT INTO ${this.#table} (group_name, kind, seq, ${HEADER_COLUMNS}) VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, 0) IF NOT EXISTS`;
    return [{ query, parameters: [group, HEADER, HEADER_SEQ, epoch, owner] }];
  }

  raise({ group, epoch, owner }: GroupOwner): readonly Statement[] {
    const query = `UPDATE ${this.#table} SET epoch = ?, owner = ? WHERE group_name = ? AND kind = ? AND seq = ? IF epoch < ?`;
    return [{ query, parameters: [epoch, owner, group, HEADER, HEADER_SEQ, epoch] }];
  }

  /** One flush: header, one entry, and what the mark says is done with. */
  append(request: AppendRequest, id: Uint8Array, marks: Marks): readonly Statement[] {
    const { group, epoch, owner, seq, previousEpoch, bytes, rows } = request;
    const header = {
      query: `UPDATE ${this.#table} SET last_seq = ?, last_epoch = ?, ceiling_us = ?, applied_seq = ?, applied_epoch = ?
        WHERE group_name = ? AND kind = ? AND seq = ?
        IF epoch = ? AND owner = ? AND last_seq = ? AND last_epoch = ? AND ceiling_us <= ? AND applied_seq <= ? AND applied_epoch <= ?`,
      parameters: [
        seq,
        epoch,
        marks.ceilingUs,
        marks.appliedSeq,
        marks.appliedEpoch,
        group,
        HEADER,
        HEADER_SEQ,
        epoch,
        owner,
        seq - 1n,
        previousEpoch,
        marks.ceilingUs,
        marks.appliedSeq,
        marks.appliedEpoch,
      ],
    };
    const entry = {
      query: `INSERT INTO ${this.#table} (group_name, kind, seq, epoch, content_id, content, content_rows) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      parameters: [group, ENTRY, seq, epoch, id, bytes, rows],
    };
    // A range delete with nothing to delete would be a tombstone in every flush.
    return request.decided.seq > 0n && request.decided.seq === marks.appliedSeq
      ? [header, entry, this.#trim(group, marks.appliedSeq)]
      : [header, entry];
  }

  /** An entry that is held already comes under the owner's epoch; what follows stays. */
  adopt({ group, epoch, owner }: GroupOwner, seq: Seq, lastSeq: Seq): readonly Statement[] {
    const isLast = seq === lastSeq;
    const header = {
      // The header's epoch is set to what it is: a condition needs a statement that writes.
      query: `UPDATE ${this.#table} SET ${isLast ? "last_epoch" : "epoch"} = ? WHERE group_name = ? AND kind = ? AND seq = ?
        IF epoch = ? AND owner = ? AND last_seq = ? AND applied_seq < ?`,
      parameters: [epoch, group, HEADER, HEADER_SEQ, epoch, owner, lastSeq, seq],
    };
    const entry = {
      query: `UPDATE ${this.#table} SET epoch = ? WHERE group_name = ? AND kind = ? AND seq = ?`,
      parameters: [epoch, group, ENTRY, seq],
    };
    return [header, entry];
  }

  advance({ group, epoch, owner }: GroupOwner, appliedSeq: Seq, appliedEpoch: Epoch): readonly Statement[] {
    const header = {
      query: `UPDATE ${this.#table} SET applied_seq = ?, applied_epoch = ? WHERE group_name = ? AND kind = ? AND seq = ?
        IF epoch = ? AND owner = ? AND last_seq >= ? AND applied_seq < ?`,
      parameters: [appliedSeq, appliedEpoch, group, HEADER, HEADER_SEQ, epoch, owner, appliedSeq, appliedSeq],
    };
    return [header, this.#trim(group, appliedSeq)];
  }

  #trim(group: string, upToSeq: Seq): Statement {
    return { query: `DELETE FROM ${this.#table} WHERE group_name = ? AND kind = ? AND seq <= ?`, parameters: [group, ENTRY, upToSeq] };
  }
}
