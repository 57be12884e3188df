import { ByteReader, ByteWriter, readOrderedBytes, writeOrderedText } from "@concord/codec";
import type { RowVersion } from "@concord/ports";
import { assert } from "@concord/runtime";
import { tokenOf } from "@concord/values";
import type { ObjectVersion } from "./rows.ts";

/**
 * Where rows are, version 1. Head, upload, part and GC entries of one key share a partition (OGD15); keys sort bytewise as listings
 * do: head rows by the key's UTF-8, earlier versions by (key, newest first), uploads by (key, id), parts by (key, id, number), garbage by due time.
 */
export const SYSTEM_PARTITION = "";

const HEADER = 0x01;
const USAGE = 0x02;
const HEAD = 0x10;
/** Versions that are not current, but for null versions: newest first. */
const VERSION = 0x11;
/** The null version of a key that is not current: at most one, so a write that replaces it needs no search. */
const NULL_VERSION = 0x12;
/** Bodies beside the rows of their versions, by key and GUID of the put: apart from heads and versions, so that no listing passes over them. */
const BODY = 0x13;
const UPLOAD = 0x20;
const PART = 0x21;
/** Uploads that are done: not among those that listings read. */
const DONE = 0x22;
/** Events that wait, by tenant and target, then in the order of their numbers. */
const EVENT = 0x28;
const LAST_NUMBER = 0x29;
const GARBAGE = 0x30;
const BUCKET = 0x40;
const EPOCH = 0x50;
const INSTANCE = 0x51;
/** 0x52 is the leases of worker ids, which the gateway keeps in the same partition. */
const SCRUB = 0x60;
const LIFECYCLE = 0x61;
const LOCK_TIME = 0x62;

const U64_MAX = 2n ** 64n - 1n;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export interface KeySpan {
  /** Inclusive. */
  readonly from: Uint8Array;
  /** Exclusive. */
  readonly to: Uint8Array;
}

export function bucketPartition(bucket: string, shard: number): string {
  assert(bucket !== "" && Number.isSafeInteger(shard) && shard >= 0, "a bucket's partition has a name and a number");
  return `${bucket}/${shard}`;
}

/** Which of a bucket's shards holds everything of a key. Never change it: it determines where stored rows are. */
export function shardOf(key: string, shards: number): number {
  if (shards === 1) return 0;
  const shard = Number(tokenOf({ kind: "text", value: key }) % BigInt(shards));
  assert(shard >= 0 && shard < shards, "a key is in one of its bucket's shards");
  return shard;
}

export const headerKey = (): Uint8Array => Uint8Array.of(HEADER);
export const usageKey = (): Uint8Array => Uint8Array.of(USAGE);

export function headKey(key: string): Uint8Array {
  return headKeyOfBytes(encoder.encode(key));
}

/** Of a key's UTF-8, or of a beginning of it: where a seek starts. */
export function headKeyOfBytes(bytes: Uint8Array): Uint8Array {
  return new ByteWriter(bytes.length + 1).u8(HEAD).raw(bytes).finish();
}

export function keyOfHead(rowKey: Uint8Array): string {
  assert(isHeadKey(rowKey), "only a head has a head's key");
  return decoder.decode(rowKey.subarray(1));
}

/** Where a version that is not current has its row. */
export function versionKey(key: string, { commit, guid, isNull }: ObjectVersion): Uint8Array {
  if (isNull) return keyed(NULL_VERSION, key).finish();
  return keyed(VERSION, key)
    .u64(U64_MAX - commit)
    .u64(U64_MAX - guid)
    .finish();
}

export const nullVersionKey = (key: string): Uint8Array => keyed(NULL_VERSION, key).finish();

/** Versions of one key that are not current, newest first, without a null version. */
export const versionsOfKeySpan = (key: string): KeySpan => spanOf(keyed(VERSION, key).finish());

export function bodyKey(key: string, guid: bigint): Uint8Array {
  return keyed(BODY, key).u64(guid).finish();
}

export const isBodyKey = (rowKey: Uint8Array): boolean => rowKey[0] === BODY;

export function keyOfBody(rowKey: Uint8Array): string {
  assert(isBodyKey(rowKey), "only a body has a body's key");
  return decoder.decode(readOrderedBytes(new ByteReader(rowKey.subarray(1))));
}

/** Of a head or of a version that is not current. */
export function keyOfObject(rowKey: Uint8Array): string {
  assert(rowKey[0]! >= HEAD && rowKey[0]! <= NULL_VERSION, "only a version of an object has an object's key");
  return rowKey[0] === HEAD ? keyOfHead(rowKey) : decoder.decode(readOrderedBytes(new ByteReader(rowKey.subarray(1))));
}

export const headSpan = (): KeySpan => spanOf(Uint8Array.of(HEAD));

export function uploadKey(key: string, uploadId: bigint): Uint8Array {
  return keyed(UPLOAD, key).u64(uploadId).finish();
}

/** The upload's row once it is done. */
export function doneUploadKey(key: string, uploadId: bigint): Uint8Array {
  return keyed(DONE, key).u64(uploadId).finish();
}

/** Uploads of all keys. */
export const uploadSpan = (): KeySpan => spanOf(Uint8Array.of(UPLOAD));

/** Uploads of one key. */
export const uploadsOfKeySpan = (key: string): KeySpan => spanOf(keyed(UPLOAD, key).finish());

/** Where uploads of keys that begin with `prefix` begin. */
export function uploadsFrom(prefix: string): Uint8Array {
  const whole = keyed(UPLOAD, prefix).finish();
  return whole.subarray(0, whole.length - 2);
}

export function uploadOfKey(rowKey: Uint8Array): { readonly key: string; readonly uploadId: bigint } {
  assert(rowKey[0]! >= UPLOAD && rowKey[0]! <= DONE, "only uploads and their parts have an upload's id");
  const reader = new ByteReader(rowKey.subarray(1));
  const key = decoder.decode(readOrderedBytes(reader));
  return { key, uploadId: reader.u64() };
}

export function partKey(key: string, uploadId: bigint, number: number): Uint8Array {
  assert(number >= 1 && number < 2 ** 32, "parts are counted from 1 on");
  return keyed(PART, key).u64(uploadId).u32(number).finish();
}

/** All parts of an upload. */
export const partSpan = (key: string, uploadId: bigint): KeySpan => spanOf(keyed(PART, key).u64(uploadId).finish());

export const isPartKey = (rowKey: Uint8Array): boolean => rowKey[0] === PART;

export function numberOfPart(rowKey: Uint8Array): number {
  assert(isPartKey(rowKey), "only a part has a part's number");
  return new ByteReader(rowKey.subarray(rowKey.length - 4)).u32();
}

/** Where events of a tenant go. */
export interface EventTarget {
  readonly tenant: string;
  readonly target: string;
}

export function eventKey(to: EventTarget, { commit, guid }: RowVersion): Uint8Array {
  return targeted(to).u64(commit).u64(guid).finish();
}

/** All events of a shard, or those for one target. */
export const eventSpan = (to?: EventTarget): KeySpan => spanOf(to === undefined ? Uint8Array.of(EVENT) : targeted(to).finish());

/** Rows that every commit writes under the header of their shard (I3). */
export function isFencedKey(rowKey: Uint8Array): boolean {
  const kind = rowKey[0]!;
  return kind >= HEAD && kind <= DONE;
}

/** Rows of buckets, epochs and passes are in the system's partition, others in their bucket's, garbage in either. */
export function isPlaced(partition: string, rowKey: Uint8Array): boolean {
  const kind = rowKey[0]!;
  return kind === GARBAGE || kind >= BUCKET === (partition === SYSTEM_PARTITION);
}

export const isHeaderKey = (rowKey: Uint8Array): boolean => rowKey[0] === HEADER;
export const isHeadKey = (rowKey: Uint8Array): boolean => rowKey[0] === HEAD;
export const isGarbageKey = (rowKey: Uint8Array): boolean => rowKey[0] === GARBAGE;
export const isEventKey = (rowKey: Uint8Array): boolean => rowKey[0] === EVENT;

export function targetOfEvent(rowKey: Uint8Array): EventTarget {
  assert(isEventKey(rowKey), "only an event has a target");
  const reader = new ByteReader(rowKey.subarray(1));
  return { tenant: decoder.decode(readOrderedBytes(reader)), target: decoder.decode(readOrderedBytes(reader)) };
}

function targeted({ tenant, target }: EventTarget): ByteWriter {
  const writer = keyed(EVENT, tenant);
  writeOrderedText(writer, target);
  return writer;
}

/** Of a key that has no head. */
export const lastNumberKey = (key: string): Uint8Array => keyed(LAST_NUMBER, key).finish();

/** `ordinal` tells several GC entries of one commit apart. */
export function garbageKey(dueMs: number, guid: bigint, ordinal = 0): Uint8Array {
  assert(ordinal >= 0 && ordinal < 256, "GC entries of one commit differ in one byte");
  return new ByteWriter(19).u8(GARBAGE).u64(BigInt(dueMs)).u64(guid).u8(ordinal).finish();
}

/** Garbage due at or before `nowMs`; without it: all garbage. */
export function garbageSpan(nowMs?: number): KeySpan {
  const all = spanOf(Uint8Array.of(GARBAGE));
  return nowMs === undefined ? all : { from: all.from, to: garbageKey(nowMs + 1, 0n) };
}

export function bucketKey(name: string): Uint8Array {
  return named(BUCKET, name);
}

export const bucketSpan = (): KeySpan => spanOf(Uint8Array.of(BUCKET));

export function epochKey(epoch: number): Uint8Array {
  return new ByteWriter(5).u8(EPOCH).u32(epoch).finish();
}

export const epochSpan = (): KeySpan => spanOf(Uint8Array.of(EPOCH));

export function instanceKey(name: string): Uint8Array {
  return named(INSTANCE, name);
}

export const scrubKey = (): Uint8Array => Uint8Array.of(SCRUB);
export const lifecycleKey = (): Uint8Array => Uint8Array.of(LIFECYCLE);
export const lockTimeKey = (): Uint8Array => Uint8Array.of(LOCK_TIME);

/** Everything of a bucket's partition but its header and its counters. */
export const contentSpan = (): KeySpan => ({ from: Uint8Array.of(HEAD), to: afterPrefix(Uint8Array.of(GARBAGE)) });

/** All keys that begin with `prefix`. */
export function spanOf(prefix: Uint8Array): KeySpan {
  return { from: prefix, to: afterPrefix(prefix) };
}

/** The first key behind all that begin with `prefix`. */
export function afterPrefix(prefix: Uint8Array): Uint8Array {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length -= 1;
  assert(length > 0, "a prefix of 0xff bytes has no end");
  const end = prefix.slice(0, length);
  end[length - 1]! += 1;
  return end;
}

/** The first key behind this one. */
export function afterKey(key: Uint8Array): Uint8Array {
  return new ByteWriter(key.length + 1).raw(key).u8(0).finish();
}

function keyed(kind: number, key: string): ByteWriter {
  const writer = new ByteWriter(64).u8(kind);
  writeOrderedText(writer, key);
  return writer;
}

function named(kind: number, name: string): Uint8Array {
  return new ByteWriter(64).u8(kind).raw(encoder.encode(name)).finish();
}
