export { addressOwner } from "./address-owner.ts";
export { assert, unreachable } from "./assert.ts";
export { every, Task, Tasks, type TaskOptions, type TaskStatus } from "./task.ts";
export { backoff, backoffMs, type Backoff, type BackoffLimits, type PauseOptions } from "./backoff.ts";
export { approximateBytes, BoundedCache, type BoundedCacheLimits } from "./bounded-cache.ts";
export { CIPHER_KEY_BYTES, CIPHER_NONCE_BYTES, CIPHER_TAG_BYTES, type Cipher } from "./cipher.ts";
export { DIGEST_BUFFER_BYTES, type DigestName, type DigestThread, type ThreadDigests } from "./digest-thread.ts";
export { sleep, type Clock, type Timer } from "./clock.ts";
export { runningTimer } from "./running-time.ts";
export { CONNECTIONS_MAX, connectionLimits, type ConnectionLimits } from "./connection-limits.ts";
export {
  DescriptorReserve,
  DESCRIPTOR_RESERVE,
  DESCRIPTOR_WAIT_MS,
  DESCRIPTOR_WRITE_WAIT_MS,
  isOutOfDescriptors,
  isShortage,
  type DescriptorReserveOptions,
} from "./descriptor-reserve.ts";
export { deferred, type Deferred } from "./deferred.ts";
export { diskSegments, folderOf } from "./disk-path.ts";
export type { Disk, DiskEntry, DiskFile } from "./disk.ts";
export type { Checksum, Environment } from "./environment.ts";
export {
  ConcordError,
  ERRORS,
  RETRY_AFTER_MS_DEFAULT,
  toConcordError,
  type Applied,
  type ErrorCode,
  type ErrorDescription,
  type ErrorKind,
  type ErrorOptions,
  type GrpcStatusName,
} from "./errors.ts";
export { FairShares } from "./fair-shares.ts";
export {
  fromHex,
  hexByteAt,
  newTimeId,
  newTimeIdBytes,
  timeIdFromBytes,
  timeIdMs,
  timeIdToBytes,
  TIME_ID_BYTES,
  toHex,
  type TimeId,
} from "./ids.ts";
export type { HttpHandler, HttpListener, HttpRequest, HttpResponse, HttpServer } from "./http.ts";
export {
  EPOCH_NONE,
  epochOf,
  isTimestampUs,
  nextEpoch,
  nextSeq,
  plusUs,
  SEQ_NONE,
  seqOf,
  TIMESTAMP_ZERO,
  timestampUsOf,
  type Epoch,
  type Seq,
  type TimestampUs,
} from "./protocol-numbers.ts";
export { StopProgress } from "./stop-progress.ts";
export { isLoopback } from "./loopback.ts";
export { lendingDisk, type LendingDiskOptions } from "./lending-disk.ts";
export { silentLog, silentMetrics, type Log, type LogFields, type MetricDefinition, type Metrics } from "./observe.ts";
export { NestedShares } from "./nested-shares.ts";
export { OutputBudget, type OutputBudgetOptions, type OutputShare } from "./output-budget.ts";
export type { Random } from "./random.ts";
export { RotatingMap } from "./rotating-map.ts";
export { Rounds } from "./rounds.ts";
export { SPACE_MEASURED_MS, SPACE_METRICS, SpaceGuard, type SpaceGuardOptions } from "./space-guard.ts";
export { SpaceReserve } from "./space-reserve.ts";
export { START_PAUSES, StartWaits, WAIT_LOG_MS_MAX, WAIT_LOG_MS_MIN, type UntilOptions } from "./start-waits.ts";
export { parseTraceparent, spanOver, TRACEPARENT_KEY, UNTRACED, type Span, type SpanKind, type TraceParent, type Tracer } from "./trace.ts";
export type {
  Admission,
  CallContext,
  CallOptions,
  Channel,
  Listener,
  MessageStream,
  Metadata,
  MethodDescriptor,
  ServedMethod,
  StreamOptions,
  Transport,
} from "./transport.ts";
export { writeRefused, WRITES_TAKEN, type Writes } from "./writes.ts";
