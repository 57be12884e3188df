// A folder as the tarball that `npm install` takes.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** Fills a temporary folder, adds manifest, README and licence, and packs it into `folder`. Returns the tarball's path. */
export async function packStage(folder: string, readme: string, fill: (stage: string) => Promise<object>): Promise<string> {
  const stage = mkdtempSync(join(tmpdir(), "concord-pack-"));
  try {
    const manifest = await fill(stage);
    copyFileSync(readme, join(stage, "README.md"));
    const license = join(ROOT, "LICENSE");
    if (existsSync(license)) copyFileSync(license, join(stage, "LICENSE"));
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
    return tarball(stage, folder);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

function tarball(stage: string, folder: string): string {
  mkdirSync(folder, { recursive: true });
  const output = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", resolve(folder)], {
    cwd: stage,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [packed] = JSON.parse(output) as { filename: string }[];
  return join(resolve(folder), packed!.filename.replace("@", "").replace("/", "-"));
}

/** The folder that a command line names: below the one where the user called npm, not below this repository, to which npm moves. */
export async function packCommand(command: string, pack: (folder: string) => Promise<string>): Promise<void> {
  const folder = process.argv[2];
  if (folder === undefined || folder.startsWith("-")) {
    console.error(`usage: npm run ${command} -- FOLDER`);
    process.exitCode = 2;
  } else console.log(await pack(resolve(process.env["INIT_CWD"] ?? ".", folder)));
}
