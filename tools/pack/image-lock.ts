/** package-lock.json, as far as it is read here (lockfileVersion 3). */
export interface Lock {
  readonly name: string;
  readonly version: string;
  readonly lockfileVersion: number;
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

export interface LockedPackage {
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export interface RootPackage {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

const MODULES = "node_modules/";

/** The lock of a package with these dependencies: of `whole` what they reach, unchanged. An error names what is not in it. */
export function lockOf(whole: Lock, root: RootPackage): Lock {
  if (whole.lockfileVersion !== 3) throw new Error(`package-lock.json has version ${whole.lockfileVersion}, readable is 3`);
  const found = new Map<string, LockedPackage>();
  const visit = (from: string, name: string): void => {
    const at = resolved(whole, from, name);
    const locked = at === undefined ? undefined : whole.packages[at];
    if (at === undefined || locked === undefined) throw new Error(`package-lock.json has no ${name} that ${from || "the image"} needs`);
    if (locked.link === true) throw new Error(`${name} is a package of the workspace: it belongs into the bundle`);
    if (found.has(at)) return;
    // What the repository needs for its tests only may be needed to run something else.
    const { dev: _dev, ...kept } = locked;
    found.set(at, kept);
    for (const each of Object.keys({ ...locked.dependencies, ...locked.optionalDependencies })) visit(at, each);
  };
  for (const name of Object.keys(root.dependencies)) visit("", name);
  const packages = Object.fromEntries([...found].toSorted(([left], [right]) => (left < right ? -1 : 1)));
  return { name: root.name, version: root.version, lockfileVersion: 3, packages: { "": root, ...packages } };
}

/** Where Node finds the package: beside the one that needs it, or in a folder above. */
export function resolved({ packages }: Lock, from: string, name: string): string | undefined {
  for (let folder = from; ;) {
    const candidate = folder === "" ? `${MODULES}${name}` : `${folder}/${MODULES}${name}`;
    if (candidate in packages) return candidate;
    if (folder === "") return undefined;
    const above = folder.lastIndexOf(`/${MODULES}`);
    folder = above < 0 ? "" : folder.slice(0, above);
  }
}
