/** A mistake in production code, and the assertion that stops it. */
export interface AssertionFault {
  /** What the assertion says, without the invariant of the lib that it begins with. */
  readonly message: string;
  readonly file: string;
  readonly search: string;
  readonly replace: string;
  /** In which the assertion fails once the fault is there. */
  readonly test: string;
}
