// esbuild and TypeScript: of this workspace, or where only what runs Concord is installed, of a folder of their own that the bootstrap made.
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

/** The folder node_modules that has esbuild, typescript and @types/node. */
export const BUILD_MODULES = process.env["CONCORD_BUILD_MODULES"] ?? resolve(import.meta.dirname, "../../node_modules");

export const esbuild = createRequire(join(BUILD_MODULES, "../package.json"))("esbuild") as typeof import("esbuild");

/** Arguments for Node that run the compiler. */
export const TSC = join(BUILD_MODULES, "typescript/bin/tsc");
export const TYPE_ROOTS = [join(BUILD_MODULES, "@types")];
