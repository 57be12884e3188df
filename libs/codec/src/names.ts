const FOLDED = /^[a-z][a-z0-9_]*$/;
const WORD = /^[a-z][a-z0-9_]*$/i;
const QUOTED = /^"(?:[^"]|"")*"$/;

/**
 * The name of a table or column as CQL reads it: a word has no case and is lower-cased, double quotes keep what is between them. What is
 * neither stays as it is and names nothing.
 */
export function foldName(name: string): string {
  if (FOLDED.test(name)) return name;
  if (WORD.test(name)) return name.toLowerCase();
  return QUOTED.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name;
}
