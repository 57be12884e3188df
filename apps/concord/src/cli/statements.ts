// Where statements end in what people type and files hold. Texts, quoted names, comments and the statements of a batch may have semicolons.

/** A text or comment that is not closed reaches to the end. */
const PIECE = /--[^\n]*|\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|[a-z_][a-z0-9_]*|[^]/gi;
/** An unclosed comment is none: more of it may come. */
const BLANK = /^(?:\s|--|\/\/|\/\*[^]*\*\/)/;

export interface CutText {
  /** Whole statements, without their semicolon. */
  readonly statements: readonly string[];
  /** The text behind the last semicolon, as it is: more of it may come. */
  readonly rest: string;
  /** The rest is more than blanks and comments. */
  readonly hasRest: boolean;
}

export function cutStatements(text: string): CutText {
  const statements: string[] = [];
  let from = 0;
  let words: string[] = [];
  let isEmpty = true;
  for (const { 0: piece, index } of text.matchAll(PIECE)) {
    if (piece === ";" && !isInBatch(words)) {
      if (!isEmpty) statements.push(text.slice(from, index).trim());
      [from, words, isEmpty] = [index + 1, [], true];
    } else if (!BLANK.test(piece)) {
      isEmpty = false;
      if (/^[a-z_]/i.test(piece)) words.push(piece.toLowerCase());
    }
  }
  return { statements, rest: text.slice(from), hasRest: !isEmpty };
}

/** BEGIN [UNLOGGED | LOGGED] BATCH without its APPLY BATCH. */
function isInBatch(words: readonly string[]): boolean {
  const isBatch = words[0] === "begin" && words.slice(1, 3).includes("batch");
  return isBatch && !(words.at(-2) === "apply" && words.at(-1) === "batch");
}
