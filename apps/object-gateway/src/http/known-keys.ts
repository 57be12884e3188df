/** Keys that the gateway was given. */
export interface KnownKeys {
  readonly managed: "configured" | "none";
  /** Ids, the default first. */
  readonly service: readonly string[];
}
