import { lineOf, type Span } from "./reference.ts";

const FENCE = /^```[^\n]*\n([\s\S]*?)^```/gm;
const CODE = /`([^`\n]+(?:\n(?!\n)[^`\n]+)*)`/g;
const LINK = /\[[^\]]*\]\(([^()\s]+)\)/g;
const HEADING = /^#+ +(.*)$/gm;

const blank = (text: string): string => text.replaceAll(/[^\n]/g, " ");

/** The document without its fenced blocks; lines keep their numbers. */
const withoutFences = (document: string): string => document.replaceAll(FENCE, blank);

/** Text in backticks, outside fenced blocks. */
export function codeSpans(document: string): Span[] {
  return spans(withoutFences(document), CODE);
}

/** The bodies of fenced blocks. */
export function fencedBlocks(document: string): Span[] {
  return spans(document, FENCE);
}

/** Targets of links, outside of code. */
export function linkTargets(document: string): Span[] {
  return spans(withoutFences(document).replaceAll(CODE, blank), LINK);
}

/** The anchors of the headings, as GitHub makes them. */
export function anchors(document: string): Set<string> {
  const seen = new Map<string, number>();
  const found = new Set<string>();
  for (const [, heading] of withoutFences(document).matchAll(HEADING)) {
    const slug = heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    found.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return found;
}

function spans(source: string, pattern: RegExp): Span[] {
  return [...source.matchAll(pattern)].map((match) => ({ text: match[1]!, line: lineOf(source, match.index) }));
}
