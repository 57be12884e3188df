/** Bytes under one checksum: what a range read reads and verifies at least. Written into every blob. */
export const BLOCK_BYTES = 256 * 1024;
/** Writes are gathered to this size. */
export const WRITE_BYTES = 1024 * 1024;
/** Blocks read at once, and given out as one chunk. */
export const READ_BLOCKS = 4;
/** Chunks' memory that is kept for the next ones: 32 MiB. */
export const READ_MEMORY_KEPT = 32;
/** A shorter chunk gets memory of its own. */
export const READ_MEMORY_MIN_BYTES = 64 * 1024;
/** Bytes read from the end first: any trailer, and the checksums of 1000 blocks. */
export const TAIL_BYTES = 8192;
/** A blob up to this size is read whole in one call. */
export const SMALL_FILE_BYTES = 320 * 1024;
/** A header is read in one call: bucket and key have at most 1024 bytes each (LIMIT_EXCEEDED). */
export const HEADER_BYTES_MAX = 4096;
/** The end of most blobs, tried first: the header's copy with bucket and key of up to 400 bytes. */
export const LIKELY_TRAILER_BYTES = 512;
/** Reads of a segment up to this length that are asked for together are one call: of the ends of blobs that lie close together. */
export const SHORT_READ_BYTES_MAX = LIKELY_TRAILER_BYTES;
/** At most so much between two of them: farther apart the bytes between cost more than a call. */
export const SHORT_READS_GAP_BYTES_MAX = 32 * 1024;
/** From the first of them to the last. */
export const SHORT_READS_BYTES_MAX = 256 * 1024;
/** The longest blob: one part of a multipart upload (LIMIT_EXCEEDED). */
export const BLOB_BYTES_MAX = 5 * 1024 ** 3;
/** Sequences that share a folder: their seals share its syncs. */
export const BLOBS_PER_FOLDER = 4096;
/** How many existing folders are cached. */
export const KNOWN_FOLDERS_MAX = 64;
/** The longest blob that is packed into a segment: `packBytesMax` may be less, not more. */
export const PACK_BYTES_MAX = 1024 * 1024;
/** Bytes of blobs that wait in memory to be packed, of all uploads together; beyond it new blobs are files of their own. */
export const PACK_BUFFER_BYTES_MAX = 64 * 1024 * 1024;
/** A segment that has grown to it gets no further needle. */
export const SEGMENT_BYTES = 256 * 1024 * 1024;
/** Copies of segments in our open epoch wait only while the disk has so many times the room that is waited for. */
export const ROOM_PER_WAITING_BYTE = 8;
/** Segments, and files of removals, that an open epoch can have; in a closed one, of each acquisition. */
export const SEGMENTS_MAX = 65_536;
/** Sequences of one page of the index, 12 bytes each: a needle far from all others costs a page. */
export const INDEX_PAGE_SEQUENCES = 1024;
/** A scan that found at least so many needles is written down. */
export const INDEXED_NEEDLES_MIN = 64;
/** Read at once when a segment is searched behind damage. */
export const SEARCH_BYTES = 1024 * 1024;
/** A view of an epoch that was moved while it was taken is taken again. */
export const REFRESH_ATTEMPTS_MAX = 8;
/** Folders of closed epochs that one pass looks at, and removes if they are empty. */
export const EPOCHS_SWEPT_MAX = 64;
/** A file that another process replaced meanwhile is looked for again. */
export const FLOOR_ATTEMPTS_MAX = 8;
