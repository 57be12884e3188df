// Packages as an install of their tarballs would leave them, and the samples of their READMEs.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A sample that hangs ends; a busy machine takes its time. */
const RUN_MS = 300_000;

/** A README's first sample and what it says that it prints. */
export interface Sample {
  readonly source: string;
  readonly prints: string;
}

/** Unpacks the tarballs below `folder`/node_modules; packages from elsewhere are the caller's to add. */
export function unpackInto(folder: string, tarballs: readonly string[]): void {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  for (const tarball of tarballs) {
    const { name } = JSON.parse(execFileSync("tar", ["-xzOf", tarball, "package/package.json"], { encoding: "utf8" })) as { name: string };
    const target = join(folder, "node_modules", name);
    mkdirSync(target, { recursive: true });
    execFileSync("tar", ["-xzf", tarball, "-C", target, "--strip-components=1"]);
  }
}

/** Throws where the README has none. */
export function sampleOf(readme: string): Sample {
  const [, source, prints] = /```js\n(.*?)```\n\nprints\n\n```text\n(.*?)```/s.exec(readFileSync(readme, "utf8")) ?? [];
  if (source === undefined || prints === undefined) throw new Error(`${readme} has no sample with its output`);
  return { source, prints: prints.trimEnd() };
}

/** What the sample prints when `node` runs it in `folder`; throws with its errors when it fails. */
export function runSample(folder: string, name: string, { source }: Sample, node: string): string {
  const file = join(folder, `${name}.js`);
  writeFileSync(file, source);
  // Not the colours that a caller asks for.
  const { FORCE_COLOR: _, ...env } = process.env;
  return execFileSync(node, [file], { cwd: folder, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: RUN_MS }).trimEnd();
}
