import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The samples pack the client with an npm command of the clone, which first installs what the lock file says. In the middle of a test that would take
 * the packages away from the test itself.
 */
export async function requireInstalled(clone: string): Promise<void> {
  const module = pathToFileURL(join(clone, "tools/bootstrap/installed.mjs")).href;
  const { isInstalled } = (await import(module)) as { isInstalled(root: string): boolean };
  if (!isInstalled(clone)) throw new Error(`node_modules of ${clone} is not what package-lock.json says: run npm ci there first`);
}
