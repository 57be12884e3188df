import type { BackoffLimits } from "@concord/runtime";

/** Largest message in either direction. A server answers more with LIMIT_EXCEEDED, a client refuses to send it. */
export const MESSAGE_BYTES_MAX = 4 * 1024 * 1024;

/** Calls a client may have outstanding on one session stream: the credits of the server's first frame. */
export const SESSION_OUTSTANDING_MAX = 1024;
/** Calls in one frame. A frame with more ends the stream with LIMIT_EXCEEDED. */
export const FRAME_CALLS_MAX = 256;
/** Calls that wait in a client for credits or for the connection; one more fails with OVERLOADED. */
export const CLIENT_QUEUE_MAX = 8192;
/** Pauses before a client opens a broken session again: none at first, then growing with every attempt that brought no frame. */
export const RECONNECT_BACKOFF: BackoffLimits = { initialMs: 20, maxMs: 1000 };
/** Deadlines of one session are looked at this often at most, so a deadline fires at most this late. */
export const DEADLINE_TICK_MS = 10;

/** Calls of one service that run at the same time, all streams together; one more is answered with OVERLOADED. */
export const SERVICE_IN_FLIGHT_MAX = 4096;
/** Calls of one service that wait for locks or for messages, beside those at work: each costs some 20 KiB. */
export const SERVICE_WAITING_MAX = 4096;
/** Streams of one service that are no sessions; one more is answered with OVERLOADED. */
export const STREAMS_MAX = 1024;
/** Sessions of one service; one more is answered with OVERLOADED. */
export const SESSIONS_MAX = 1024;
/** Messages of one such stream that are kept until its handler listens; one more ends it with LIMIT_EXCEEDED. */
export const STREAM_EARLY_MESSAGES_MAX = 16;
/** Bytes of pages and large answers of a process that their clients have not taken yet. */
export const OUTPUT_BYTES_MAX = 128 * 1024 * 1024;
/** A client that took nothing for so long is broken off when others wait for the memory. */
export const OUTPUT_STALLED_MS = 5_000;
/** A stream with more bytes that have not left the process takes no message until they have. */
export const STREAM_UNSENT_BYTES_MAX = 64 * 1024;
/** Unary answers above it are counted until they have left the process. */
export const ANSWER_COUNTED_BYTES = 16 * 1024;

/** Bytes of requests of a process, from the first byte of a message until its call is answered (of a stream: until the message is read). */
export const INPUT_BYTES_MAX = 128 * 1024 * 1024;
/** Messages from this size on count in it; smaller ones are bounded by the calls in flight. */
export const REQUEST_COUNTED_BYTES = 16 * 1024;
/** Time for a message that began, and for the one message of a call that sends no stream; then the call is ended. */
export const REQUEST_COMPLETE_MS_MAX = 30_000;
/** A refused call that still sends is broken off after it: the bytes are discarded meanwhile, and its client sees the status. */
export const REFUSED_LINGER_MS = 1_000;
/** Time for the first bytes of a connection. */
export const CONNECTION_SILENT_MS_MAX = 10_000;

/** Time budget of a call whose client gave none. */
export const DEFAULT_TIMEOUT_MS = 10_000;
/** Longest budget a server accepts; a longer one is cut to it. */
export const TIMEOUT_MS_MAX = 600_000;

/** Texts of a status are cut to this length: they travel in HTTP/2 headers. */
export const STATUS_TEXT_MAX = 1024;
export const STATUS_METADATA_ENTRIES_MAX = 16;
