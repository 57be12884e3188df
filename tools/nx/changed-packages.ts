// Which third-party packages a change of the lock file reaches.

/** Names, without versions; "all" where a lock file is missing or differs in more than its packages. */
export type ChangedPackages = ReadonlySet<string> | "all";

interface LockFile {
  /** Packages by the folder each is installed to; "" is the root, folders of the workspace are their package.json once more. */
  readonly packages: Readonly<Record<string, unknown>>;
}

const FOLDER = "node_modules/";

/** Compares two texts of package-lock.json; undefined: there was none. */
export function changedPackages(before: string | undefined, after: string | undefined): ChangedPackages {
  if (before === after) return new Set();
  const [old, now] = [parse(before), parse(after)];
  if (old === undefined || now === undefined) return "all";
  if (JSON.stringify({ ...old, packages: undefined }) !== JSON.stringify({ ...now, packages: undefined })) return "all";
  const folders = new Set([...Object.keys(old.packages), ...Object.keys(now.packages)]);
  const differing = [...folders].filter((folder) => JSON.stringify(old.packages[folder]) !== JSON.stringify(now.packages[folder]));
  return new Set(differing.flatMap((folder) => nameOf(folder) ?? []));
}

/** A package's name has no version here, so that a copy of another version inside another package counts, too. */
function nameOf(folder: string): string | undefined {
  const at = folder.lastIndexOf(FOLDER);
  return at === -1 ? undefined : folder.slice(at + FOLDER.length);
}

function parse(text: string | undefined): LockFile | undefined {
  if (text === undefined) return undefined;
  try {
    const lock = JSON.parse(text) as Partial<LockFile>;
    return lock.packages === undefined ? undefined : { ...lock, packages: lock.packages };
  } catch {
    return undefined;
  }
}
