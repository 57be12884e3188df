const FENCE = /^```(?:sh|bash|shell|console)\n([^]*?)^```/gm;

/** The npm commands of a README's shell blocks, in order, without prompts and comments. */
export function readmeCommands(readme: string): string[] {
  const lines = [...readme.matchAll(FENCE)].flatMap((match) => match[1]!.split("\n"));
  const commands = lines.map((line) =>
    line
      .replace(/^\s*\$ /, "")
      .replace(/\s+#.*$/, "")
      .trim(),
  );
  return [...new Set(commands.filter((command) => command.startsWith("npm ")))];
}
