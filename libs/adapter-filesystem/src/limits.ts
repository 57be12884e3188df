/** Bytes under one checksum: what a range read reads and verifies at least. Written into every piece. */
export const BLOCK_BYTES = 256 * 1024;
/** Writes are gathered to this size. */
export const WRITE_BYTES = 1024 * 1024;
/** Blocks read at once, and given out as one chunk. */
export const READ_BLOCKS = 4;
/** Bytes read from the end first: a piece that is no longer is read at once; the checksums of 1000 blocks fit, too. */
export const TAIL_BYTES = 4096;
/** A piece up to this size is read whole in one call. */
export const SMALL_FILE_BYTES = 320 * 1024;
/** A header is read in one call: bucket and key have at most 1024 bytes each (LIMIT_EXCEEDED). */
export const HEADER_BYTES_MAX = 4096;
/** The longest piece: one part of a multipart upload (LIMIT_EXCEEDED). */
export const PIECE_BYTES_MAX = 5 * 1024 ** 3;
/** Sequences that share a folder: their seals share its syncs. */
export const PIECES_PER_FOLDER = 4096;
/** Folders whose existence is remembered. */
export const KNOWN_FOLDERS_MAX = 64;
