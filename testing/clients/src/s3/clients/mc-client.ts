// mc, MinIO's own command line, compiled from the Go module proxy.
import assert from "node:assert/strict";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { download, goMissing, run } from "../../toolchain.ts";
import { ACCESS_KEY, type GatewayProgram } from "../gateway-program.ts";
import { assertSameFiles, awsVariables, cached, fetched, LARGE_BYTES, makeFiles, SCRIPTS, type Client, type Installed } from "./client.ts";

const MODULE = "github.com/minio/mc";
const SOURCE = join(SCRIPTS, "mc");

export const MC: Client = { name: "mc", install: installMc };

async function installMc(): Promise<Installed> {
  const missing = await goMissing();
  if (missing !== undefined) return { kind: "missing", reason: missing };
  const [modules = "", sums = ""] = ["go.mod", "go.sum"].map((name) => readFileSync(join(SOURCE, name), "utf8"));
  const compiler = await run("go", ["version"]);
  let folder = "";
  const reason = await download("the Go module proxy", async () => {
    folder = await cached("mc", compiler + modules + sums, async (partial) => {
      const source = join(partial, "source");
      cpSync(SOURCE, source, { recursive: true });
      await run("go", ["build", "-trimpath", "-o", join(partial, "mc"), MODULE], { cwd: source });
      rmSync(source, { recursive: true });
    });
  });
  if (reason !== undefined) return { kind: "missing", reason };
  // The proxy has no releases of it, only commits: the date of this one is its version.
  const [, version] = new RegExp(`${MODULE} v0\\.0\\.0-(\\d{8})`).exec(modules) ?? [];
  assert.ok(version !== undefined, `go.mod names no commit of ${MODULE}`);
  return { kind: "ready", version, work: (gateway) => useMc(join(folder, "mc"), gateway) };
}

type Mc = (...args: readonly string[]) => Promise<string>;

async function useMc(program: string, gateway: GatewayProgram): Promise<void> {
  const { folder, address } = gateway;
  const env = { ...awsVariables(gateway), MC_CONFIG_DIR: join(folder, "mc") };
  const mc: Mc = (...args) => run(program, ["--no-color", "--quiet", ...args], { cwd: folder, env });
  await mc("alias", "set", "g", `http://${address}`, ACCESS_KEY.accessKeyId, ACCESS_KEY.secretAccessKey, "--api", "S3v4", "--path", "on");
  const files = makeFiles(join(folder, "files"));
  await mc("mb", "g/days");
  await transferFiles(mc, files, folder);
  await shareObjects(mc, files);
  await describeObjects(mc);
  await keepVersions(mc, folder);
  await configureBucket(mc, folder);
  await lockObjects(mc);
  await mc("rb", "--force", "g/days");
  assert.equal(await mc("ls", "g"), "");
}

async function transferFiles(mc: Mc, files: string, folder: string): Promise<void> {
  await mc("mirror", files, "g/days/all");
  assert.equal(await mc("diff", files, "g/days/all"), "", "nothing is left to send");
  await mc("mirror", "g/days/all", join(folder, "back"));
  assertSameFiles(join(folder, "back"), files);
  await mc("put", "--part-size", "5MiB", join(files, "large.bin"), "g/days/put.bin");
  await mc("get", "g/days/put.bin", join(folder, "got/large.bin"));
  await mc("cp", "g/days/put.bin", "g/days/copy.bin");
  await mc("cp", "--checksum", "CRC32C", join(files, "large.bin"), "g/days/checked.bin");
  await mc("cp", "g/days/checked.bin", join(folder, "got/checked.bin"));
  for (const got of ["got/large.bin", "got/checked.bin"]) {
    assert.ok(readFileSync(join(folder, got)).equals(readFileSync(join(files, "large.bin"))), got);
  }
  await mc("cp", "--recursive", "g/days/all/deep/", "g/days/copied/");
  await mc("mv", "g/days/copied/er/photo 1 (köln)+.bin", "g/days/moved + there.bin");
  const listed = await mc("ls", "--recursive", "g/days");
  for (const name of ["all/deep/er/photo 1 (köln)+.bin", "copied/other", "copy.bin", "moved + there.bin"]) {
    assert.ok(listed.includes(name), `${name} in ${listed}`);
  }
  assert.doesNotMatch(listed, /copied\/er/);
}

async function shareObjects(mc: Mc, files: string): Promise<void> {
  const shared = JSON.parse(await mc("--json", "share", "download", "--expire", "1h", "g/days/all/notes.txt")) as {
    readonly share: string;
  };
  assert.equal(await fetched(shared.share), "notes of a day\n");
  const { share } = JSON.parse(await mc("--json", "share", "upload", "g/days/form.txt")) as { readonly share: string };
  // A command of curl, with the file's name to be filled in.
  const form = share.replace("<FILE>", join(files, "notes.txt"));
  await run("bash", ["--norc", "-euc", form.replace(/^curl /, "curl --fail --silent --show-error ")]);
  assert.equal(await mc("cat", "g/days/form.txt"), "notes of a day\n");
}

async function describeObjects(mc: Mc): Promise<void> {
  const stat = JSON.parse(await mc("--json", "stat", "g/days/put.bin")) as { readonly size: number };
  assert.equal(stat.size, LARGE_BYTES);
  assert.equal(await mc("head", "--lines", "1", "g/days/all/notes.txt"), "notes of a day\n");
  assert.match(await mc("du", "g/days/all"), /5 objects/);
  assert.match(await mc("find", "g/days", "--name", "photo*"), /photo 1 \(köln\)\+\.bin/);
  await mc("tag", "set", "g/days/all/notes.txt", "age=old");
  assert.match(await mc("tag", "list", "g/days/all/notes.txt"), /age.*old/);
  await mc("tag", "set", "g/days", "team=blue");
  assert.match(await mc("tag", "list", "g/days"), /team.*blue/);
}

async function keepVersions(mc: Mc, folder: string): Promise<void> {
  await mc("version", "enable", "g/days");
  assert.match(await mc("version", "info", "g/days"), /enabled/);
  for (const text of ["first\n", "second\n"]) {
    writeFileSync(join(folder, "text"), text);
    await mc("cp", join(folder, "text"), "g/days/versions/text");
  }
  await mc("rm", "g/days/versions/text");
  const lines = (await mc("--json", "ls", "--versions", "g/days/versions/")).trim().split("\n");
  const versions = lines.map((line) => JSON.parse(line) as { readonly versionId: string; readonly isDeleteMarker?: boolean });
  assert.deepEqual(
    versions.map(({ isDeleteMarker }) => isDeleteMarker ?? false),
    [true, false, false],
  );
  assert.equal(await mc("cat", "--version-id", versions.at(-1)?.versionId ?? "", "g/days/versions/text"), "first\n");
  await mc("undo", "--force", "g/days/versions/text");
  assert.equal(await mc("cat", "g/days/versions/text"), "second\n");
  await mc("rm", "--recursive", "--force", "--versions", "g/days/versions/");
  assert.equal(await mc("ls", "--versions", "g/days/versions/"), "");
  await mc("version", "suspend", "g/days");
}

async function configureBucket(mc: Mc, folder: string): Promise<void> {
  await mc("ilm", "rule", "add", "--prefix", "logs/", "--expire-days", "3", "g/days");
  assert.match(await mc("ilm", "rule", "ls", "g/days"), /logs\//);
  await mc("anonymous", "set", "download", "g/days/all");
  assert.match(await mc("anonymous", "list", "g/days"), /days\/all.* => readonly/);
  await mc("anonymous", "set", "none", "g/days/all");
  const cors = join(folder, "cors.xml");
  writeFileSync(
    cors,
    "<CORSConfiguration><CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>",
  );
  await mc("cors", "set", "g/days", cors);
  assert.match(await mc("cors", "get", "g/days"), /a\.example/);
  await mc("cors", "remove", "g/days");
  await mc("encrypt", "set", "sse-s3", "g/days");
  assert.match(await mc("encrypt", "info", "g/days"), /sse-s3/);
  await mc("encrypt", "clear", "g/days");
}

async function lockObjects(mc: Mc): Promise<void> {
  await mc("mb", "--with-lock", "g/locked");
  await mc("retention", "set", "--default", "GOVERNANCE", "1d", "g/locked");
  await mc("cp", "g/days/all/notes.txt", "g/locked/notes.txt");
  await mc("legalhold", "set", "g/locked/notes.txt");
  assert.match(await mc("legalhold", "info", "g/locked/notes.txt"), /ON/);
  await mc("legalhold", "clear", "g/locked/notes.txt");
  assert.match(await mc("retention", "info", "g/locked/notes.txt"), /GOVERNANCE/);
  await mc("rm", "--recursive", "--force", "--versions", "--bypass", "g/locked");
  await mc("rb", "g/locked");
}
