/** `*` stands for any text, `?` for one character. Time is at most pattern times text, both of which are bounded; nothing backtracks further. */
export function matchesWildcard(pattern: string, text: string): boolean {
  let at = 0;
  let from = 0;
  let star = -1;
  let resume = 0;
  while (from < text.length) {
    if (at < pattern.length && pattern[at] === "*") {
      star = at;
      resume = from;
      at += 1;
    } else if (at < pattern.length && (pattern[at] === "?" || pattern[at] === text[from])) {
      at += 1;
      from += 1;
    } else if (star >= 0) {
      resume += 1;
      at = star + 1;
      from = resume;
    } else {
      return false;
    }
  }
  while (pattern[at] === "*") at += 1;
  return at === pattern.length;
}
