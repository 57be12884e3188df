// rclone, restic and s3fs: programs of the system, from Debian's packages.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { run } from "../../toolchain.ts";
import { makeBucket } from "../callers.ts";
import { ACCESS_KEY, REGION, type GatewayProgram } from "../gateway-program.ts";
import { assertSameFiles, awsVariables, makeFiles, UnableHere, versionLine, type Client, type Installed } from "./client.ts";

const FUSE = "/dev/fuse";
/** What FUSE's library says where a container has the device and must not mount. */
const MOUNT_REFUSED = /fuse(rmount3?)?: .*(not permitted|Permission denied|No such device|device not found)/;
const UNMOUNT_TRIES_MAX = 50;

export const PROGRAMS: readonly Client[] = [
  { name: "rclone", install: () => installed("rclone", "version", useRclone) },
  { name: "restic", install: () => installed("restic", "version", useRestic) },
  {
    name: "s3fs",
    notItsOwn: ["CreateBucket"],
    install: async () => (existsSync(FUSE) ? installed("s3fs", "--version", useS3fs) : { kind: "unable", reason: `${FUSE} is not there` }),
  },
];

async function installed(program: string, asks: string, work: (gateway: GatewayProgram) => Promise<void>): Promise<Installed> {
  const line = await versionLine(program, asks);
  if (line === undefined) return { kind: "missing", reason: `${program} is not installed (Debian package ${program})` };
  return { kind: "ready", version: /\d+\.\d+(\.\d+)?/.exec(line)?.[0] ?? line, work };
}

async function useRclone(gateway: GatewayProgram): Promise<void> {
  const { folder, address } = gateway;
  // It refuses a list of authorities that is meant for other programs of this machine.
  const variables = { ...awsVariables(gateway), AWS_CA_BUNDLE: "", RCLONE_CONFIG: join(folder, "rclone.conf") };
  writeFileSync(
    variables.RCLONE_CONFIG,
    `[s]\ntype = s3\nprovider = Other\nenv_auth = true\nregion = ${REGION}\nendpoint = http://${address}\n`,
  );
  const rclone = (...args: string[]): Promise<string> => run("rclone", ["--retries", "1", ...args], { cwd: folder, env: variables });
  const files = makeFiles(join(folder, "files"));
  await rclone("mkdir", "s:clone");
  await rclone("sync", "--s3-chunk-size", "5M", "--s3-upload-cutoff", "6M", files, "s:clone/all");
  await rclone("check", files, "s:clone/all");
  await rclone("sync", "s:clone/all", join(folder, "back"));
  assertSameFiles(join(folder, "back"), files);
  assert.match(await rclone("lsl", "s:clone"), /all\/deep\/er\/photo 1 \(köln\)\+\.bin/);
  await rclone("moveto", "s:clone/all/notes.txt", "s:clone/moved.txt");
  assert.equal(await rclone("cat", "s:clone/moved.txt"), "notes of a day\n");
  assert.match(await rclone("size", "s:clone"), /Total objects: 5/);
  await rclone("purge", "s:clone");
}

async function useRestic(gateway: GatewayProgram): Promise<void> {
  const { folder, address } = gateway;
  const repository = {
    RESTIC_REPOSITORY: `s3:http://${address}/rest`,
    RESTIC_PASSWORD: "of a backup",
    RESTIC_CACHE_DIR: join(folder, "cache"),
  };
  const restic = (...args: string[]): Promise<string> =>
    run("restic", args, { cwd: folder, env: { ...awsVariables(gateway), ...repository } });
  const files = makeFiles(join(folder, "files"));
  await restic("init");
  await restic("backup", "files");
  writeFileSync(join(files, "later"), "a later file");
  await restic("backup", "files");
  await restic("check", "--read-data");
  await restic("restore", "latest", "--target", join(folder, "back"));
  assertSameFiles(join(folder, "back/files"), files);
  await restic("forget", "--keep-last", "1", "--prune");
  assert.match(await restic("snapshots"), /1 snapshots/);
}

async function useS3fs(gateway: GatewayProgram): Promise<void> {
  const { folder, address } = gateway;
  const password = join(folder, "password");
  writeFileSync(password, `${ACCESS_KEY.accessKeyId}:${ACCESS_KEY.secretAccessKey}\n`, { mode: 0o600 });
  const mounted = join(folder, "mounted");
  mkdirSync(mounted);
  const options = [
    `passwd_file=${password}`,
    `url=http://${address}`,
    "use_path_request_style",
    "sigv4",
    `endpoint=${REGION}`,
    "multipart_size=5",
  ];
  await makeBucket(address, "mounted");
  try {
    await run("s3fs", ["mounted", mounted, ...options.flatMap((option) => ["-o", option])], { env: awsVariables(gateway) });
  } catch (thrown) {
    const refused = MOUNT_REFUSED.exec((thrown as { readonly stderr?: string }).stderr ?? "");
    throw refused === null ? thrown : new UnableHere(`nothing may be mounted here: ${refused[0]}`);
  }
  try {
    const files = makeFiles(join(folder, "files"));
    await run("cp", ["-r", `${files}/.`, mounted]);
    assertSameFiles(mounted, files);
    await run("mv", [join(mounted, "notes.txt"), join(mounted, "moved.txt")]);
    assert.equal(readFileSync(join(mounted, "moved.txt"), "utf8"), "notes of a day\n");
    writeFileSync(join(mounted, "moved.txt"), "more\n", { flag: "a" });
    assert.equal(readFileSync(join(mounted, "moved.txt"), "utf8"), "notes of a day\nmore\n");
    rmSync(join(mounted, "deep"), { recursive: true });
    assert.ok(!existsSync(join(mounted, "deep/other")));
  } finally {
    await unmount(mounted);
  }
}

async function unmount(place: string): Promise<void> {
  for (let attempt = 0; attempt < UNMOUNT_TRIES_MAX; attempt += 1) {
    const isMounted = readFileSync("/proc/mounts", "utf8").includes(` ${place} `);
    if (!isMounted) return;
    await run("fusermount", ["-u", place]).catch(() => sleep(100));
  }
  throw new Error(`${place} stays mounted`);
}
