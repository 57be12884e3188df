// Contents of a release: its third-party packages with licence and hash, from the lock file and the packages themselves, and the standard
// contracts that are copied into it.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { resolved, type Lock } from "./image-lock.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const MODULES = "node_modules/";

/** A third-party package of a release. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** Package URLs of what it depends on. */
  readonly needs: readonly string[];
  /** SPDX expression, as its own package.json names it. */
  readonly license: string;
  /** Of its tarball at the registry, base64. */
  readonly sha512: string;
  /** Text of its licence file, or for the binary of a platform, that of the package it belongs to; undefined: neither has one. */
  readonly licenseText: string | undefined;
}

/** A file that is an unmodified copy of someone else's. */
export interface Copied {
  readonly path: string;
  /** Where it was taken from. */
  readonly from: string;
  readonly license: string;
  readonly sha256: string;
}

/** Packages of a lock but the root itself, by name and version. Throws at one without an SPDX licence or a hash. */
export function componentsOf(lock: Lock): readonly Component[] {
  const owners = platformOwners(lock);
  return Object.entries(lock.packages)
    .filter(([path]) => path !== "")
    .map(([path, locked]) => {
      const name = nameIn(path);
      const { version, license, integrity } = locked as { version?: string; license?: string; integrity?: string };
      if (version === undefined || license === undefined || integrity?.startsWith("sha512-") !== true) {
        throw new Error(`package-lock.json has no version, licence or sha512 for ${name}: a release may not have it`);
      }
      const licenseText = licenseTextIn(path) ?? licenseTextIn(owners.get(path));
      return { name, version, license, sha512: integrity.slice("sha512-".length), licenseText, needs: needsOf(lock, path) };
    })
    .toSorted((left, right) => (`${left.name}@${left.version}` < `${right.name}@${right.version}` ? -1 : 1));
}

const nameIn = (path: string): string => path.slice(path.lastIndexOf(MODULES) + MODULES.length);
const urlOf = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`;

/** Package URLs of the dependencies that the lock has. */
function needsOf(lock: Lock, path: string): readonly string[] {
  const { dependencies, optionalDependencies } = lock.packages[path]!;
  return Object.keys({ ...dependencies, ...optionalDependencies }).map((name) => {
    const at = resolved(lock, path, name)!;
    return urlOf(name, (lock.packages[at] as { version: string }).version);
  });
}

/** Paths of the packages that have one package for each platform, by the path of that one. */
function platformOwners(lock: Lock): ReadonlyMap<string, string> {
  const owners = Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).map((name) => [resolved(lock, path, name)!, path] as const),
  );
  return new Map(owners);
}

function licenseTextIn(path: string | undefined): string | undefined {
  const folder = path === undefined ? undefined : join(ROOT, path);
  if (folder === undefined || !existsSync(folder)) return undefined;
  const file = readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name));
  return file === undefined ? undefined : readFileSync(join(folder, file), "utf8");
}

/** The contracts of others that clients and servers carry; each names its licence in its first lines. */
export function copiedContracts(): readonly Copied[] {
  const protos = join(ROOT, "protos");
  const vendored = JSON.parse(readFileSync(join(protos, "vendored.json"), "utf8")) as Record<string, { from: string; sha256: string }>;
  return Object.entries(vendored).map(([path, { from, sha256 }]) => {
    if (!/^\/\/.*Apache License, Version 2\.0/m.test(readFileSync(join(protos, path), "utf8")))
      throw new Error(`protos/${path} does not name the licence Apache-2.0: a release may not have it`);
    return { path, from, sha256, license: "Apache-2.0" };
  });
}

/** CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). */
export function sbomOf(
  product: { readonly name: string; readonly version: string },
  { components, copied }: { readonly components: readonly Component[]; readonly copied: readonly Copied[] },
  madeAt: Date,
): object {
  const packages = components.map(({ name, version, license, sha512 }) => {
    const purl = urlOf(name, version);
    const hashes = [{ alg: "SHA-512", content: Buffer.from(sha512, "base64").toString("hex") }];
    return { type: "library", name, version, purl, "bom-ref": purl, licenses: [{ expression: license }], hashes };
  });
  const files = copied.map(({ path, from, license, sha256 }) => {
    const hashes = [{ alg: "SHA-256", content: sha256 }];
    return { type: "file", name: path, description: `copied from ${from}`, "bom-ref": path, licenses: [{ expression: license }], hashes };
  });
  const needed = new Set(components.flatMap(({ needs }) => needs));
  const direct = packages.map(({ purl }) => purl).filter((purl) => !needed.has(purl));
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: madeAt.toISOString(),
      component: { type: "application", name: product.name, version: product.version, "bom-ref": product.name },
    },
    components: [...packages, ...files],
    dependencies: [
      { ref: product.name, dependsOn: [...direct, ...copied.map(({ path }) => path)] },
      ...components.map(({ name, version, needs }) => ({ ref: urlOf(name, version), dependsOn: needs })),
    ],
  };
}

/** Every licence text once, below the packages that come with it. */
export function licensesOf(components: readonly Component[]): string {
  const byText = new Map<string, string[]>();
  for (const { name, version, license, licenseText } of components) {
    const text = licenseText?.trim() ?? `${license} (the package has no licence file)`;
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  return [...byText].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`).join(`\n${"-".repeat(80)}\n\n`);
}
