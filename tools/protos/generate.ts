// Writes the TypeScript types of the contracts to protos/src/gen (git-ignored): one file per message and enum, and an index.ts per
// package that gives out all of them as types. proto-loader-gen-types knows no bigint, so its 64-bit types are rewritten.
import { execFileSync } from "node:child_process";
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { concordProtoFiles, PROTOS_FOLDER } from "./proto-files.ts";

const OUTPUT = "src/gen";
const OPTIONS = ["--longs=BigInt", "--enums=String", "--defaults", "--oneofs", "--includeComments", "--importFileExtension=.ts"];

/** The text of a generated file with its 64-bit types as bigint, which is what `longs: BigInt` gives and takes at run time. */
export function withBigInts(text: string): string {
  const rewritten = text
    .replace(/^import type \{ Long \} from '@grpc\/proto-loader';\n/m, "")
    .replaceAll("(number | string | Long)", "(bigint)")
    .replaceAll("(Long)", "(bigint)");
  if (/\bLong\b/.test(rewritten.replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, ""))) throw new Error(`a 64-bit type was not rewritten:\n${rewritten}`);
  return rewritten;
}

function generate(): void {
  rmSync(join(PROTOS_FOLDER, OUTPUT), { recursive: true, force: true });
  const command = join(process.cwd(), "node_modules/@grpc/proto-loader/build/bin/proto-loader-gen-types.js");
  execFileSync(process.execPath, [command, ...OPTIONS, `--outDir=${OUTPUT}`, "-I", ".", "--", ...concordProtoFiles()], {
    cwd: PROTOS_FOLDER,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const files = globSync(`${OUTPUT}/**/*.ts`, { cwd: PROTOS_FOLDER }).sort();
  for (const file of files) rewrite(join(PROTOS_FOLDER, file));
  writeIndexes(files);
}

function rewrite(path: string): void {
  writeFileSync(path, withBigInts(readFileSync(path, "utf8")));
}

function writeIndexes(files: readonly string[]): void {
  const packages = Map.groupBy(files, dirname);
  for (const [folder, members] of packages) {
    const lines = members.map((file) => `export type * from "./${basename(file)}";\n`);
    writeFileSync(join(PROTOS_FOLDER, folder, "index.ts"), lines.join(""));
  }
  const concord = [...packages.keys()].filter((folder) => folder.startsWith(`${OUTPUT}/concord/`));
  const exports = concord.map((folder) => {
    const path = relative(OUTPUT, folder);
    return `export type * as ${path.split("/").at(-2)} from "./${path}/index.ts";\n`;
  });
  writeFileSync(join(PROTOS_FOLDER, OUTPUT, "index.ts"), exports.join(""));
}

if (import.meta.main) generate();
