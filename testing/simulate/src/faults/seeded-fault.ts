/** A mistake in production code that the simulation must find: proof that a clean run means something. */
export interface SeededFault {
  readonly name: string;
  /** The mistake, and the claim that it breaks. */
  readonly about: string;
  readonly scenario: string;
  /** No seed is known that finds it: searched by name only. Such a fault is a hole in the simulation, kept until it is closed. */
  readonly notFoundYet?: true;
  /** Each text must be in its file exactly once. */
  readonly edits: readonly { readonly file: string; readonly search: string; readonly replace: string }[];
}
