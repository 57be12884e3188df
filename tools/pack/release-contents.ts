// Compares the documents of a release with its contents.
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const BUF = resolve(import.meta.dirname, "../../node_modules/.bin/buf");
const SCOPE = "@concord/";

/** Throws where a package depends on another one that the SBOM does not have. */
export function checkSbom(release: string): void {
  const { components } = JSON.parse(readFileSync(join(release, "sbom.cdx.json"), "utf8")) as {
    readonly components: readonly { readonly name: string; readonly version?: string }[];
  };
  const known = new Set(components.map(({ name, version }) => `${name}@${version}`));
  const unknown = globSync("npm/*.tgz", { cwd: release }).flatMap((path) => {
    const text = execFileSync("tar", ["-xzOf", join(release, path), "package/package.json"], { encoding: "utf8" });
    const { dependencies = {} } = JSON.parse(text) as { readonly dependencies?: Readonly<Record<string, string>> };
    const named = Object.entries(dependencies).filter(([name]) => !name.startsWith(SCOPE));
    return named.filter(([name, version]) => !known.has(`${name}@${version}`)).map(([name, version]) => `${path}: ${name}@${version}`);
  });
  if (unknown.length > 0) throw new Error(`sbom.cdx.json has not what packages depend on:\n${unknown.join("\n")}`);
}

/** Unpacks the contracts into `folder` and has buf compile and lint them there; throws with what it finds. */
export function checkContracts(release: string, folder: string): void {
  const [packed] = globSync("protos/*.tgz", { cwd: release });
  mkdirSync(folder);
  execFileSync("tar", ["-xzf", join(release, packed!), "-C", folder, "--strip-components=1"]);
  for (const args of [["build", "--output", join(folder, "image.binpb")], ["lint"]])
    execFileSync(BUF, args, { cwd: folder, stdio: "pipe" });
}
