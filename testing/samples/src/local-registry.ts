// An npm registry of what this workspace has installed, so that the samples' `npm install` needs no network and gets the locked versions.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { basename, dirname, join } from "node:path";

interface Installed {
  /** Its folder, from the root of the workspace. */
  readonly path: string;
  readonly version: string;
}

export interface LocalRegistry {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves every package in node_modules of `root`, all of its installed versions. The one that is hoisted to the top is the latest. */
export async function startLocalRegistry(root: string): Promise<LocalRegistry> {
  const packages = installedIn(root);
  const server = createServer((request, response) => {
    const [name, tarball] = decodeURIComponent(request.url!.slice(1)).split("/-/");
    const versions = packages.get(name!);
    if (versions === undefined) notFound(response);
    else if (tarball === undefined) answerPackage(response, root, name!, versions, url);
    else sendTarball(response, root, versions, tarball.replace(/\.tgz$/, ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function installedIn(root: string): ReadonlyMap<string, readonly Installed[]> {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version?: string; link?: boolean; name?: string }>;
  };
  const packages = new Map<string, Installed[]>();
  for (const [path, { version, link, name }] of Object.entries(lock.packages)) {
    const at = path.lastIndexOf("node_modules/");
    if (at < 0 || link === true || version === undefined) continue;
    const known = name ?? path.slice(at + "node_modules/".length);
    packages.set(known, [...(packages.get(known) ?? []), { path, version }]);
  }
  return packages;
}

function answerPackage(response: ServerResponse, root: string, name: string, installed: readonly Installed[], url: string): void {
  const versions = installed.flatMap(({ path, version }) => {
    const manifest = manifestOf(join(root, path));
    return manifest === undefined ? [] : [{ ...manifest, version, dist: { tarball: `${url}/${name}/-/${version}.tgz` } }];
  });
  const latest = installed.find(({ path }) => path === `node_modules/${name}`) ?? installed[0]!;
  const body = { name, "dist-tags": { latest: latest.version }, versions: Object.fromEntries(versions.map((one) => [one.version, one])) };
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** Undefined: the lock file has it for another platform. */
function manifestOf(folder: string): object | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as object;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** npm drops the first folder of the paths in a tarball, whatever its name. */
function sendTarball(response: ServerResponse, root: string, installed: readonly Installed[], version: string): void {
  const found = installed.find((one) => one.version === version);
  if (found === undefined) return notFound(response);
  const folder = join(root, found.path);
  const name = basename(folder);
  const tar = spawn("tar", ["-czf", "-", "-C", dirname(folder), `--exclude=${name}/node_modules`, name], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  response.writeHead(200, { "content-type": "application/octet-stream" });
  tar.stdout.pipe(response);
}

function notFound(response: ServerResponse): void {
  response.writeHead(404, { "content-type": "application/json" }).end('{"error":"not installed in this workspace"}');
}
