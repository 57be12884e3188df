/**
 * Version of what nodes of a ring say to each other. Nodes of different versions refuse each other: 2 = rows follow from the log, whose
 * entries an earlier node would store without them; 3 = outcomes lie in one row per flush, and a node that cut its journal is asked for no
 * vote; 4 = entries of all groups travel in one message; 5 = what came since then: anti-entropy, reads of a group as of one place, traceparent;
 * 6 = copies of rows name the receiver's newest collection of tombstones, which an earlier node would not refuse; 7 = a node's
 * write clock travels with Hello, and values that do not fit into a message in parts; 8 = a node that is catching up after its store lost rows answers
 * copies with that, and a log that is full with entries or with bytes.
 * What a version is made of is recorded in `apps/storage-proxy/src/test/protocol-versions.json`, and a test compares.
 */
export const RING_PROTOCOL = 8;
/** Metadata of every call but Hello, which tells it in its message. */
export const RING_PROTOCOL_KEY = "concord-ring-protocol";
/** Pause between attempts to reach a peer that is not reachable. */
export const PROBE_INTERVAL_MS = 200;
export const PROBE_TIMEOUT_MS = 1000;
/** A peer that lets a call of at least this budget expire is probed: it may be slow, or gone. */
export const SILENCE_MS_MIN = 250;
/** Entries in one page of a copy (TXR4); the answering node also ends a page by bytes. */
export const COPY_PAGE_ENTRIES_MAX = 1000;
/** Bytes of entries that wait for one peer: above it the peer counts as slow, and fetches later what it missed. */
export const LANE_BYTES_MAX = 16 * 1024 * 1024;
/** A message between nodes takes no more appends once it has so many or so many bytes. One append has at most LOG_READ_BYTES_MAX and a last entry. */
export const LANE_MESSAGE_APPENDS_MAX = 256;
export const LANE_MESSAGE_BYTES_TARGET = 256 * 1024;
/** How often a value that does not fit into a message is read when it changes between two parts. */
export const LARGE_VALUE_TRIES_MAX = 8;
