// The samples of a document: how to set up their folder, then each program with its own commands and the output it shows.

export interface Sample {
  /** "album.mjs". */
  readonly file: string;
  readonly source: string;
  /** Commands before the program, from the same section. */
  readonly setUp: string;
  /** The command that runs it. */
  readonly run: string;
  /** What the document shows as its output. */
  readonly output: readonly string[];
}

export interface Samples {
  /** Commands that make the folder of all samples. */
  readonly setUp: string;
  readonly samples: readonly Sample[];
}

interface Block {
  readonly language: string;
  readonly text: string;
}

const SECTION = /^##+ /m;
const BLOCK = /^```(\w*)\n([^]*?)^```$/gm;
const FILE_NAME = /^\/\/ (\S+\.mjs)\n/;

/**
 * Reads the section `## Use it`: its own shell block sets up the folder, and each subsection with a program has shell blocks before it, the
 * program under its name, the command that runs it and the output. A program in any other form is a mistake of the document.
 */
export function samplesIn(markdown: string): Samples {
  const use = sectionOf(markdown, "Use it");
  const [introduction, ...sections] = use.split(SECTION);
  return { setUp: shellOf(blocksOf(introduction!)), samples: sections.flatMap((section) => sampleIn(blocksOf(section))) };
}

/** The one program of a section without subsections: shell blocks, program, command, output. */
export function sampleOf(markdown: string, title: string): Sample {
  const [sample] = sampleIn(blocksOf(sectionOf(markdown, title)));
  if (sample === undefined) throw new Error(`the section \`## ${title}\` has no program`);
  return sample;
}

function sectionOf(markdown: string, title: string): string {
  const section = markdown.split(/^## /m).find((text) => text.startsWith(`${title}\n`));
  if (section === undefined) throw new Error(`the document has no section \`## ${title}\``);
  return section;
}

function sampleIn(blocks: readonly Block[]): Sample[] {
  const at = blocks.findIndex(({ language }) => language === "js");
  if (at < 0) return [];
  const source = blocks[at]!.text;
  const file = FILE_NAME.exec(source)?.[1];
  const [run, output] = blocks.slice(at + 1);
  if (file === undefined) throw new Error(`a sample has no file name in its first line: ${source.split("\n")[0]}`);
  if (run?.language !== "sh" || run.text !== `node ${file}\n`) throw new Error(`the sample ${file} is not followed by \`node ${file}\``);
  if (output?.language !== "") throw new Error(`the sample ${file} shows no output`);
  return [{ file, source, setUp: shellOf(blocks.slice(0, at)), run: run.text, output: output.text.trimEnd().split("\n") }];
}

function blocksOf(section: string): Block[] {
  return [...section.matchAll(BLOCK)].map(([, language, text]) => ({ language: language!, text: text! }));
}

const shellOf = (blocks: readonly Block[]): string =>
  blocks
    .filter(({ language }) => language === "sh")
    .map(({ text }) => text)
    .join("");

/** The shown output as a pattern: numbers and hashes differ from run to run, everything else does not. */
export function patternOf(output: readonly string[]): RegExp {
  const lines = output.map((line) =>
    line
      .split(/[0-9a-f]*[0-9][0-9a-f]*/)
      .map((text) => text.replaceAll(/[^\w\s]/g, "\\$&"))
      .join("[0-9a-f]+"),
  );
  return new RegExp(`^${lines.join("\\n")}\\n$`);
}
