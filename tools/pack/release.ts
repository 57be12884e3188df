// `npm run release -- [--dry-run] [FOLDER]`: everything a release has, in one folder, and each package installed from its file and used.
// Publishes nothing: at the end it prints the commands that do.
import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { commit, readManifest } from "@concord/nx-targets/bundle";
import { packClient } from "./client.ts";
import { packConcord } from "./concord.ts";
import { packImage } from "./image.ts";
import type { Lock } from "./image-lock.ts";
import { packLibraries } from "./libraries.ts";
import { checkRelease } from "./release-check.ts";
import { componentsOf, copiedContracts, licensesOf, sbomOf } from "./sbom.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const USAGE = `usage: npm run release -- [--dry-run] [FOLDER]

Builds npm packages, image folder, chart, contracts, SBOM, licences, checksums and provenance into FOLDER (default: release), installs the
packages from their files on Node 20, 22 and 26, and uses them.

  --dry-run   any commit and working tree will do; without it the tree must be clean and its commit tagged v and the version
  --help      this text`;

interface Artifact {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--help")) {
    console.log(USAGE);
    return 0;
  }
  const isDry = args.includes("--dry-run");
  const [given, ...more] = args.filter((arg) => arg !== "--dry-run");
  if (more.length > 0 || given?.startsWith("-") === true) {
    console.error(USAGE);
    return 2;
  }
  const { version } = readManifest("apps/concord");
  if (!isDry) requireTagged(version);
  const folder =
    given === undefined && isDry
      ? mkdtempSync(join(tmpdir(), "concord-release-"))
      : resolve(process.env["INIT_CWD"] ?? ".", given ?? "release");
  try {
    const artifacts = await build(folder, version);
    for (const { path, bytes, sha256 } of artifacts.filter(({ path }) => !path.startsWith("image/")))
      console.log(`${sha256.slice(0, 12)}  ${String(bytes).padStart(9)}  ${path}`);
    const counts = await checkRelease(folder);
    if (counts.failed === 0 && !isDry) console.log(publishing(folder, version));
    console.log(`${counts.passed} passed, ${counts.failed} failed`);
    return counts.failed === 0 ? 0 : 1;
  } finally {
    if (given === undefined && isDry) rmSync(folder, { recursive: true, force: true });
  }
}

/** A release is one commit, and that commit says which. */
function requireTagged(version: string): void {
  const git = (...args: string[]): string => execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim();
  if (git("status", "--porcelain") !== "") throw new Error("the working tree has changes: commit them, or add --dry-run");
  if (!git("tag", "--points-at", "HEAD").split("\n").includes(`v${version}`)) {
    throw new Error(`this commit has no tag v${version}: git tag v${version}, or add --dry-run`);
  }
}

async function build(folder: string, version: string): Promise<readonly Artifact[]> {
  rmSync(folder, { recursive: true, force: true });
  const npm = join(folder, "npm");
  await step("npm packages", async () => {
    await packLibraries(npm);
    await packClient(npm);
    await packConcord(npm);
  });
  const image = join(folder, "image");
  await step("image", async () => void (await packImage(image)));
  await step("chart", async () => archive(join(ROOT, "deploy/helm"), "concord", join(folder, "chart", `concord-${version}.tgz`)));
  await step("contracts", async () => packContracts(join(folder, "protos", `concord-protos-${version}.tgz`)));
  await step("SBOM, licences", async () => {
    const lock = JSON.parse(readFileSync(join(image, "package-lock.json"), "utf8")) as Lock;
    const components = componentsOf(lock);
    writeJson(join(folder, "sbom.cdx.json"), sbomOf({ name: "concord", version }, { components, copied: copiedContracts() }, commitTime()));
    writeFileSync(join(folder, "THIRD-PARTY-LICENSES.txt"), licensesOf(components));
  });
  const artifacts = globSync("**/*", { cwd: folder })
    .filter((path) => statSync(join(folder, path)).isFile())
    .toSorted()
    .map((path) => artifactOf(folder, path));
  writeFileSync(join(folder, "SHA256SUMS"), artifacts.map(({ sha256, path }) => `${sha256}  ${path}\n`).join(""));
  writeJson(join(folder, "provenance.json"), provenance(artifacts));
  return artifacts;
}

async function step(name: string, run: () => Promise<void>): Promise<void> {
  const begin = performance.now();
  await run();
  console.error(`release: ${name} in ${((performance.now() - begin) / 1000).toFixed(1)} s`);
}

/** The same bytes for the same files: names in order, no owner, the time of the commit. */
function archive(parent: string, name: string, target: string): void {
  mkdirSync(join(target, ".."), { recursive: true });
  const mtime = `--mtime=@${Math.floor(commitTime().getTime() / 1000)}`;
  const tar = ["--sort=name", mtime, "--owner=0", "--group=0", "--numeric-owner", "-C", parent, "-cf", "-", name];
  const bytes = execFileSync("tar", tar, { maxBuffer: 64 * 1024 * 1024 });
  writeFileSync(target, execFileSync("gzip", ["-n", "-9"], { input: bytes, maxBuffer: 64 * 1024 * 1024 }));
}

/** The contracts as a buf module, with what clients in any language need beside them. */
function packContracts(target: string): void {
  const stage = mkdtempSync(join(tmpdir(), "concord-protos-"));
  const from = join(ROOT, "protos");
  try {
    const wanted = ["**/*.proto", "buf.yaml", "README.md", "retries.json", "vendored.json", "test-vectors/**/*.json"];
    for (const path of wanted.flatMap((pattern) =>
      globSync(pattern, { cwd: from, exclude: ["node_modules/**", "testing/**", "**/gen/**"] }),
    )) {
      cpSync(join(from, path), join(stage, "concord-protos", path), { recursive: true });
    }
    cpSync(join(ROOT, "LICENSE"), join(stage, "concord-protos/LICENSE"));
    archive(stage, "concord-protos", target);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

function artifactOf(folder: string, path: string): Artifact {
  const bytes = readFileSync(join(folder, path));
  return { path, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
}

/** SLSA provenance (https://slsa.dev/spec/v1.0/provenance), unsigned: who publishes signs it. */
function provenance(artifacts: readonly Artifact[]): object {
  const revision = execFileSync("git", ["rev-parse", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim();
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: artifacts.map(({ path, sha256 }) => ({ name: path, digest: { sha256 } })),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "npm run release",
        externalParameters: { commit: commit() },
        resolvedDependencies: [
          { name: "source", digest: { gitCommit: revision } },
          { name: "package-lock.json", digest: { sha256: artifactOf(ROOT, "package-lock.json").sha256 } },
        ],
      },
      runDetails: {
        builder: { id: `node ${process.version}, ${process.platform} ${process.arch}` },
        metadata: { finishedOn: commitTime().toISOString() },
      },
    },
  };
}

function commitTime(): Date {
  return new Date(1000 * Number(execFileSync("git", ["log", "-1", "--format=%ct"], { cwd: ROOT, encoding: "utf8" })));
}

function writeJson(path: string, content: object): void {
  writeFileSync(path, `${JSON.stringify(content, undefined, 2)}\n`);
}

function publishing(folder: string, version: string): string {
  const packages = globSync("npm/*.tgz", { cwd: folder })
    .toSorted()
    .map((path) => `npm publish --access public ${basename(folder)}/${path}`);
  return [
    "to publish:",
    ...packages,
    `docker build -f docker/Dockerfile --build-arg COMMIT=${commit() ?? ""} --tag REGISTRY/concord:${version} --push .`,
    `helm push ${basename(folder)}/chart/concord-${version}.tgz oci://REGISTRY`,
  ].join("\n  ");
}

process.exitCode = await main(process.argv.slice(2));
