// What a release is made of: its third-party packages with licence and hash, from the lock file and the packages themselves.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Lock } from "./image-lock.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const MODULES = "node_modules/";

/** A third-party package of a release. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** SPDX expression, as its own package.json names it. */
  readonly license: string;
  /** Of its tarball at the registry, base64. */
  readonly sha512: string;
  /** Text of its licence file; undefined: it has none, or is for another platform and not installed here. */
  readonly licenseText: string | undefined;
}

/** Packages of a lock but the root itself, by name and version. Throws at one without an SPDX licence or a hash. */
export function componentsOf(lock: Lock): readonly Component[] {
  return Object.entries(lock.packages)
    .filter(([path]) => path !== "")
    .map(([path, locked]) => {
      const name = path.slice(path.lastIndexOf(MODULES) + MODULES.length);
      const { version, license, integrity } = locked as { version?: string; license?: string; integrity?: string };
      if (version === undefined || license === undefined || integrity?.startsWith("sha512-") !== true) {
        throw new Error(`package-lock.json has no version, licence or sha512 for ${name}: a release may not have it`);
      }
      return { name, version, license, sha512: integrity.slice("sha512-".length), licenseText: licenseTextIn(join(ROOT, path)) };
    })
    .toSorted((left, right) => (`${left.name}@${left.version}` < `${right.name}@${right.version}` ? -1 : 1));
}

function licenseTextIn(folder: string): string | undefined {
  if (!existsSync(folder)) return undefined;
  const file = readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name));
  return file === undefined ? undefined : readFileSync(join(folder, file), "utf8");
}

/** CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). */
export function sbomOf(
  product: { readonly name: string; readonly version: string },
  components: readonly Component[],
  madeAt: Date,
): object {
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: madeAt.toISOString(),
      component: { type: "application", name: product.name, version: product.version, "bom-ref": product.name },
    },
    components: components.map(({ name, version, license, sha512 }) => {
      const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
      return {
        type: "library",
        name,
        version,
        purl,
        "bom-ref": purl,
        licenses: [{ expression: license }],
        hashes: [{ alg: "SHA-512", content: Buffer.from(sha512, "base64").toString("hex") }],
      };
    }),
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
