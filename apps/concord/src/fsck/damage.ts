export type Print = (line: string) => void;

/** Content of a damaged folder: it decides what can be done. */
export type Holding =
  /** Rows of a ring's node. */
  | "ring-store"
  /** Rows that are there once: of objects, of the dedup-worker. */
  | "lone-store"
  /** A segment of a window of ids: made again from the output. */
  | "window"
  /** Reservations of uploads; a scrub finds what they would have shown. */
  | "upload-journal"
  | "message-log"
  /** Bytes of objects: there once. */
  | "object-data"
  /** Epochs of object data that are closed although their folders are gone: the rows of the epochs have the same. */
  | "closed-epochs";

/** Damage in one place. */
export interface Damage {
  /** A folder. */
  readonly where: string;
  readonly holding: Holding;
  readonly what: string;
}
