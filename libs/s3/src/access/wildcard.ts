/**
 * `*` stands for any text, `?` for one character. What is between two stars is looked for from the left, once, and a text without `?` by the
 * engine's own search, in linear time. One with `?` takes its length times that of the text: `slowChars` is for the limit of those.
 */
export function matchesWildcard(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  if (!isAt(first, text, 0)) return false;
  const last = rest.pop();
  if (last === undefined) return text.length === first.length;
  let from = first.length;
  for (const segment of rest) {
    const found = find(segment, text, from);
    if (found < 0) return false;
    from = found + segment.length;
  }
  const end = text.length - last.length;
  return end >= from && isAt(last, text, end);
}

/** Characters that `matchesWildcard` may compare at each place of a text. */
export function slowChars(pattern: string): number {
  const between = pattern.split("*").slice(1, -1);
  return between.reduce((sum, segment) => sum + (segment.includes("?") ? segment.length : 0), 0);
}

function isAt(segment: string, text: string, from: number): boolean {
  if (!segment.includes("?")) return text.startsWith(segment, from);
  if (from + segment.length > text.length) return false;
  for (let at = 0; at < segment.length; at += 1) if (segment[at] !== "?" && segment[at] !== text[from + at]) return false;
  return true;
}

function find(segment: string, text: string, from: number): number {
  if (!segment.includes("?")) return text.indexOf(segment, from);
  for (let at = from; at + segment.length <= text.length; at += 1) if (isAt(segment, text, at)) return at;
  return -1;
}
