import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import type { Engine, Requirement } from "./engine.ts";

export const JAVA: Requirement = { program: "java", install: "apt-get install openjdk-17-jre-headless" };
/** Once: until the jars are in the cache. */
export const MAVEN: Requirement = { program: "mvn", install: "apt-get install maven" };

/** Empty when the engine can run here; else one line per thing that is missing, with the command that installs it. */
export function missingRequirements(engine: Engine, platform: string, has: (program: string) => boolean): readonly string[] {
  if (platform !== "linux") return [`${engine.name} runs by this command on Linux only: processes are checked by /proc`];
  return engine.requirements().flatMap(({ program, install }) => (has(program) ? [] : [`${engine.name} needs ${program}: ${install}`]));
}

export function isOnPath(program: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
