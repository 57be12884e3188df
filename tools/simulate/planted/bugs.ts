/** A mistake in production code that the simulation must find: proof that a clean run means something. */
export interface PlantedBug {
  readonly name: string;
  /** What goes wrong, and the claim it breaks. */
  readonly about: string;
  readonly scenario: string;
  /** Each text must be in its file exactly once. */
  readonly edits: readonly { readonly file: string; readonly search: string; readonly replace: string }[];
}

export const PLANTED_BUGS: readonly PlantedBug[] = [];
