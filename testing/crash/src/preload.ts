// Libraries that are preloaded into processes of the services.
import { execFileSync } from "node:child_process";

/** Compiles one C file; throws without a C compiler. */
export function compilePreload(source: string, library: string): string {
  execFileSync("cc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source, "-ldl"], { stdio: "inherit" });
  return library;
}
