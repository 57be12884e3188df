// A page of docs that a reader follows from top to bottom in one shell: its shell blocks, the files that it shows, and the output below a block.
import { patternOf } from "./sample.ts";

interface Step {
  /** Bash. */
  readonly commands: string;
  /** Their output, as the page shows it; undefined: it shows none. */
  readonly output: string | undefined;
}

const BLOCK = /^```(\w*)\n([^]*?)^```$/gm;
/** A file that is shown names itself in its first line. */
const FILE_NAME = /^# (\S+\.py)\n/;
const SEPARATOR = "-- step --";

/** The steps of a page. A block without a language is the output of the shell block before it, or a drawing where there is none. */
export function stepsOf(markdown: string): readonly Step[] {
  const steps: Step[] = [];
  let isShell = false;
  for (const [, language, text] of markdown.matchAll(BLOCK)) {
    if (language === "" && isShell) steps.push({ ...steps.pop()!, output: text! });
    else if (language === "sh") steps.push({ commands: text!, output: undefined });
    else if (language === "python") steps.push({ commands: `cat > ${nameOf(text!)} <<'PYTHON'\n${text}PYTHON\n`, output: undefined });
    isShell = language === "sh";
  }
  return steps;
}

function nameOf(source: string): string {
  const name = FILE_NAME.exec(source)?.[1];
  if (name === undefined) throw new Error(`a program has no file name in its first line: ${source.split("\n")[0]}`);
  return name;
}

/** One script of all steps. */
export function scriptOf(steps: readonly Step[]): string {
  return steps.map(({ commands }) => `echo "${SEPARATOR}"\n${commands}`).join("");
}

/** Each step with output of its own whose output was another one: commands, then what came. */
export function differencesOf(steps: readonly Step[], stdout: string): readonly string[] {
  const outputs = stdout.split(`${SEPARATOR}\n`).slice(1);
  return steps.flatMap(({ commands, output }, at) => {
    if (output === undefined || patternOf(output.trimEnd().split("\n")).test(outputs[at] ?? "")) return [];
    return [`${commands}\nshows\n${output}\nand printed\n${outputs[at] ?? "nothing: an earlier step failed"}`];
  });
}
