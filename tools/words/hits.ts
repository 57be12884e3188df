import { ALLOWED, BAG, WORDS } from "./words.ts";

export interface Hit {
  readonly path: string;
  /** From 1; 0: the path itself. */
  readonly line: number;
  readonly found: string;
  readonly instead: string;
}

/** Uses of replaced words in a file and in its path, in order. */
export function hitsIn(path: string, text: string): Hit[] {
  return [path, ...text.split("\n")].flatMap((written, line) => lineHits(path, line, written));
}

function lineHits(path: string, line: number, written: string): Hit[] {
  const kept = ALLOWED.filter(({ within }) => within?.test(path) !== false).reduce((left, { text }) => left.replaceAll(text, " "), written);
  const plain = inPlainWords(kept);
  const words = WORDS.filter(({ within }) => within?.test(path) !== false).flatMap(({ pattern, instead }) =>
    [...plain.matchAll(pattern)].map((match) => ({ path, line, found: match[0], instead })),
  );
  const bag = BAG.exec(kept);
  return bag === null ? words : [...words, { path, line, found: bag[1]!, instead: "Context (what runs), Options (what constructs)" }];
}

/** "#killPoint(KILL_POINT)" -> "#kill point(kill point)": identifiers as the words they are made of. */
function inPlainWords(line: string): string {
  return line
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/[_-]+/g, " ")
    .toLowerCase();
}
