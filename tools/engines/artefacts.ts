// Jars of an engine, resolved by Maven once and kept outside the repository: $XDG_CACHE_HOME/concord-engines, else ~/.cache/concord-engines.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

const COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

export interface Artefacts {
  readonly engine: string;
  /** Lists the jars; its property ENGINE.version is the version. */
  readonly pom: string;
}

export function versionOf({ engine, pom }: Artefacts): string {
  const version = new RegExp(`<${engine}\\.version>([^<]+)<`).exec(readFileSync(pom, "utf8"))?.[1];
  if (version === undefined) throw new Error(`${pom} has no property ${engine}.version`);
  return version;
}

export function artefactFolder(artefacts: Artefacts, environment: NodeJS.ProcessEnv): string {
  const cache = environment["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  return join(cache, "concord-engines", `${artefacts.engine}-${versionOf(artefacts)}`);
}

/** The class path: every jar, in a fixed order. Downloads them when the cache lacks them. */
export function classPath(artefacts: Artefacts, environment: NodeJS.ProcessEnv, report: (line: string) => void): string {
  const folder = artefactFolder(artefacts, environment);
  if (!existsSync(folder)) resolveInto(folder, artefacts.pom, report);
  const jars = readdirSync(folder).filter((name) => name.endsWith(".jar"));
  if (jars.length === 0) throw new Error(`${folder} has no jars: remove it and start again`);
  return jars
    .toSorted()
    .map((name) => join(folder, name))
    .join(":");
}

/** Into a folder beside it that is renamed at the end: two that resolve at once, or one that is cut short, never leave half of the jars. */
function resolveInto(folder: string, pom: string, report: (line: string) => void): void {
  const startMs = performance.now();
  mkdirSync(dirname(folder), { recursive: true });
  const part = mkdtempSync(`${folder}.part-`);
  try {
    report(`resolving ${pom} by Maven, once ...`);
    const args = ["-B", "-q", "-f", pom, COPY_DEPENDENCIES, "-DincludeScope=runtime", `-DoutputDirectory=${part}`];
    const { status, error } = spawnSync("mvn", args, { stdio: ["ignore", "inherit", "inherit"] });
    if (status !== 0) throw new Error(`mvn could not resolve ${pom}: ${error?.message ?? `exit code ${status}`}`);
    chmodSync(part, 0o755);
    if (!existsSync(folder)) renameSync(part, folder);
    report(`resolved in ${((performance.now() - startMs) / 1000).toFixed(1)} s: ${readdirSync(folder).length} files in ${folder}`);
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}
