/** Something that a file names and that must exist in the repository. */
export interface Reference {
  readonly kind: "claim" | "rule" | "decision" | "invariant" | "document" | "path" | "link" | "metric" | "command" | "identifier";
  readonly file: string;
  readonly line: number;
  /** As it stands in the file. */
  readonly text: string;
  /** Why it leads nowhere; undefined when it resolves. */
  readonly problem: string | undefined;
}

/** A text with its place. */
export interface Span {
  readonly text: string;
  readonly line: number;
}

export function lineOf(source: string, index: number): number {
  return source.slice(0, index).split("\n").length;
}
