// `npx nx g @concord/generators:lib NAME --layer base` and `npx nx g @concord/generators:app NAME`. What they write passes
// `npm run check` as it is.
import { execFileSync } from "node:child_process";
import { appFiles, libFiles } from "./templates.mjs";

const INSTALL = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];

export function generateLib(tree, { name, layer, skipInstall }) {
  return write(tree, `libs/${name}`, libFiles(name, layer, versionOf(tree)), skipInstall);
}

export function generateApp(tree, { name, skipInstall }) {
  return write(tree, `apps/${name}`, appFiles(name, versionOf(tree)), skipInstall);
}

function versionOf(tree) {
  return JSON.parse(tree.read("package.json", "utf8")).version;
}

/** Refuses a folder that exists; the returned step links the project and adds it to package-lock.json. */
function write(tree, folder, files, skipInstall) {
  if (tree.exists(folder)) throw new Error(`${folder} exists already`);
  for (const [path, text] of Object.entries(files)) tree.write(`${folder}/${path}`, text);
  if (skipInstall) return undefined;
  return () => void execFileSync("npm", INSTALL, { cwd: tree.root, stdio: "inherit", shell: process.platform === "win32" });
}
