// grpc_tools over all contracts, imported by a client that is then run.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { expectedReport, VECTORS_FILE } from "./expected.ts";
import { startServer } from "./server.ts";
import { download, PROTOS, pythonMissing, run } from "./toolchain.ts";

const SOURCE = join(import.meta.dirname, "../python");
const REQUIREMENTS = join(SOURCE, "requirements.txt");
const CACHE = join(import.meta.dirname, "../../../node_modules/.cache/concord-clients");

/** Where the pinned packages are, or will be: the folder is there only when its installation was finished. */
async function packagesFolder(): Promise<string> {
  const version = await run("python3", ["-c", "import sys; print(sys.implementation.cache_tag, sys.platform)"]);
  const key = createHash("sha256").update(version).update(readFileSync(REQUIREMENTS)).digest("hex").slice(0, 16);
  return join(CACHE, `python-${key}`);
}

async function install(folder: string): Promise<void> {
  mkdirSync(CACHE, { recursive: true });
  const partial = mkdtempSync(join(CACHE, "installing-"));
  try {
    await run("python3", ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", partial, "-r", REQUIREMENTS]);
    if (!existsSync(folder)) renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
}

const missing = await pythonMissing();

const NAME = "Python: all contracts: import; a client calls, reads google.rpc details of its own packages, computes tokens";

test(NAME, { skip: missing }, async (t) => {
  const packages = await packagesFolder();
  const unreachable = existsSync(packages) ? undefined : await download("PyPI", () => install(packages));
  if (unreachable !== undefined) return t.skip(unreachable);
  const root = mkdtempSync(join(tmpdir(), "concord-python-client-"));
  t.after(() => rmSync(root, { recursive: true }));
  const generated = join(root, "generated");
  const standard = join(root, "standard");
  for (const folder of [generated, standard]) mkdirSync(folder);
  const env = { PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: "1" };
  const python = (...args: string[]): Promise<string> => run("python3", args, { cwd: PROTOS, env });
  const protoc = (...args: string[]): Promise<string> => python("-m", "grpc_tools.protoc", "-I", ".", ...args);
  const contracts = globSync("concord/**/*.proto", { cwd: PROTOS });
  await protoc(...["python_out", "pyi_out", "grpc_python_out"].map((option) => `--${option}=${generated}`), ...contracts);
  await protoc(`--python_out=${standard}`, "google/rpc/error_details.proto", "google/rpc/status.proto");
  const server = await startServer();
  t.after(() => server.drain(0));
  const output = await python(join(SOURCE, "client.py"), generated, server.address, VECTORS_FILE, standard);
  assert.deepEqual(JSON.parse(output), {
    ...expectedReport("UNAVAILABLE"),
    modules: 2 * contracts.length,
    standard: ["error_details_pb2", "status_pb2"],
  });
});
