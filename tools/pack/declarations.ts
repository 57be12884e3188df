// Types that stand alone: an installed package names no other one's.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { TSC, TYPE_ROOTS } from "@concord/nx-targets/build-modules";

const ROOT = resolve(import.meta.dirname, "../..");

/** Types of other packages that stand alone too, by specifier their path: the installed package has a copy of them. */
export type Carried = Readonly<Record<string, string>>;

/** Writes the declarations reachable from index.d.ts, the types of `entry`; refuses any that names another package. */
export function emitDeclarations(stage: string, entry: string, carried: Carried = {}): void {
  const out = mkdtempSync(join(tmpdir(), "concord-types-"));
  try {
    const config = join(out, "tsconfig.json");
    const options = {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      outDir: join(out, "types"),
      rootDir: ROOT,
      noCheck: true,
    };
    // Found through node_modules alone they count as another package's, for which tsc writes nothing.
    const copies = Object.values(carried).map((path) => join(ROOT, `${path}.ts`));
    writeFileSync(
      config,
      JSON.stringify({
        extends: join(ROOT, "tsconfig.base.json"),
        compilerOptions: { ...options, typeRoots: TYPE_ROOTS },
        files: [join(ROOT, `${entry}.ts`), ...copies],
      }),
    );
    execFileSync(process.execPath, [TSC, "-p", config], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    copyDeclarations({ types: join(out, "types"), stage, carried }, entry, "index");
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** `path` and what it imports, from below `types` into one folder. */
function copyDeclarations(
  copy: { readonly types: string; readonly stage: string; readonly carried: Carried },
  path: string,
  as = basename(path),
): void {
  const { types, stage, carried } = copy;
  const target = join(stage, `${as}.d.ts`);
  if (existsSync(target)) return;
  let text = readFileSync(join(types, `${path}.d.ts`), "utf8");
  const imports = [...text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)/g)].map((match) => (match[1] ?? match[2])!);
  const paths = imports.map((specifier) => {
    const imported = specifier.startsWith("./") ? join(dirname(path), specifier.replace(/\.(ts|js)$/, "")) : carried[specifier];
    if (imported === undefined) throw new Error(`the type ${path}.d.ts names ${specifier}: public types must stand alone`);
    text = text.replaceAll(`"${specifier}"`, `"./${basename(imported)}.js"`);
    return imported;
  });
  writeFileSync(target, text);
  for (const imported of paths) copyDeclarations(copy, imported);
}
