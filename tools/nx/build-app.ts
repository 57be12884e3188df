// Bundles one app into its dist folder: workspace code inside, npm packages outside and listed with their versions in
// dist/package.json. `npm install` in dist gives an image everything it needs.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundlePrograms, commit, readManifest } from "./bundle.ts";

async function buildApp(root: string): Promise<void> {
  const output = join(root, "dist");
  rmSync(output, { recursive: true, force: true });
  const dependencies = await bundlePrograms({ main: join(root, "src/main.ts") }, output);
  const { name, version, license } = readManifest(root);
  const { overrides } = readManifest(".");
  const manifest = { name, version, commit: commit(), license, private: true, type: "module", main: "main.js", dependencies, overrides };
  writeFileSync(join(output, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
  // A bundle that cannot say what it takes and which build it is, is no build.
  execFileSync(process.execPath, [join(output, "main.js"), "--help"], { stdio: ["ignore", "ignore", "inherit"] });
  const said = execFileSync(process.execPath, [join(output, "main.js"), "--version"], { encoding: "utf8" });
  if (!said.includes(` ${version} (commit ${manifest.commit ?? "unknown"},`)) throw new Error(`the bundle takes itself for ${said}`);
}

const root = process.argv[2];
if (root === undefined) throw new Error("usage: node tools/nx/build-app.ts APP_FOLDER");
await buildApp(root);
