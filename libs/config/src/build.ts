/** Which program runs: labels of its metric, fields of its first log line, the text of --version. */
export interface Build {
  readonly version: string;
  /** The commit it was built from, "-dirty" behind it when files differed; "unknown" when it runs from its sources. */
  readonly commit: string;
  /** Version of Node. */
  readonly node: string;
}

/** From the package.json beside the program, where the build writes it with the commit, or else that of the project whose src it is in. */
export function buildOf(folder: string, node: string, readFile: (path: string) => string): Build {
  const { version, commit = "unknown" } = JSON.parse(manifestText(folder, readFile)) as { version: string; commit?: string };
  return { version, commit, node };
}

export function versionText(name: string, { version, commit, node }: Build): string {
  return `${name} ${version} (commit ${commit}, Node ${node})\n`;
}

function manifestText(folder: string, readFile: (path: string) => string): string {
  try {
    return readFile(`${folder}/package.json`);
  } catch (error) {
    if ((error as { code?: string }).code !== "ENOENT") throw error;
    return readFile(`${folder}/../package.json`);
  }
}
