const FENCE = /^```(?:sh|bash|shell|console)\n([^]*?)^```/gm;

/** The commands of the workspace in a README's shell blocks, in order, without prompts and comments. What users install elsewhere is left out. */
export function readmeCommands(readme: string): string[] {
  const lines = [...readme.matchAll(FENCE)].flatMap((match) => match[1]!.split("\n"));
  const commands = lines.map((line) =>
    line
      .replace(/^\s*\$ /, "")
      .replace(/\s+#.*$/, "")
      .trim(),
  );
  return [...new Set(commands.filter((command) => /^npm (start|test|run)\b/.test(command)))];
}
