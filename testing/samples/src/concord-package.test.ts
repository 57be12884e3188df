// All of Concord as users install it for their integration tests: packed, installed in an empty folder, the sample of apps/concord run there.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { requireInstalled } from "./installed.ts";
import { type LocalRegistry, startLocalRegistry } from "./local-registry.ts";
import { type Outputs, runSamples } from "./run-samples.ts";
import { patternOf, sampleOf } from "./sample.ts";

const CLONE = resolve(import.meta.dirname, "../../..");
const BUF = join(CLONE, "node_modules/.bin/buf");
const SAMPLE = sampleOf(readFileSync(join(CLONE, "apps/concord/README.md"), "utf8"), "In integration tests");

let folder: string;
let registry: LocalRegistry;
let outputs: Outputs;
/** Where the sample was installed and run. */
let installed: string;
let temporary: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-package-"));
  await requireInstalled(CLONE);
  temporary = join(folder, "temporary");
  mkdirSync(temporary);
  process.env["TMPDIR"] = temporary;
  registry = await startLocalRegistry(CLONE);
  const stranger = { folder, node: process.execPath, clone: CLONE, dataFolder: "", registry: registry.url, constellation: undefined };
  outputs = await runSamples({ setUp: "", samples: [SAMPLE] }, stranger, 2);
  installed = join(folder, SAMPLE.file);
});

after(async () => {
  delete process.env["TMPDIR"];
  await registry?.close();
  rmSync(folder, { recursive: true, force: true });
});

test("startConcord from the package: a transaction, an object, a message, twice: says what the README shows, ends, leaves nothing", () => {
  for (const said of outputs.get(SAMPLE.file)!) assert.match(said, patternOf(SAMPLE.output));
  assert.deepEqual(
    readdirSync(temporary).filter((name) => name.startsWith("concord-")),
    [],
  );
});

test("the package's program: says which build it is", () => {
  const said = execFileSync(process.execPath, [join(installed, "node_modules/.bin/concord"), "--version"], { encoding: "utf8" });
  assert.match(said, /^concord 0\.1\.0 \(commit /);
});

test("the package's types stand alone: a strict TypeScript program compiles", () => {
  const program = `
    import { startConcord, type RunningConcord } from "@concord/concord";
    export const started: Promise<RunningConcord> = startConcord({ dataFolder: "kept", logLevel: "warn" });
    // @ts-expect-error: a folder is a string
    export const wrong = startConcord({ dataFolder: 7 });`;
  writeFileSync(join(installed, "use.ts"), program);
  const options = { strict: true, noEmit: true, module: "nodenext", lib: ["es2023", "esnext.disposable"], types: [], skipLibCheck: false };
  writeFileSync(join(installed, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["use.ts"] }));
  execFileSync(process.execPath, [join(CLONE, "node_modules/typescript/bin/tsc"), "-p", installed], { stdio: ["ignore", "pipe", "pipe"] });
});

test("a bundled program answers reflection: it has no .proto files beside it", () => {
  const program = `
    import { execFile } from "node:child_process";
    import { promisify } from "node:util";
    import { startConcord } from "@concord/concord";
    await using concord = await startConcord();
    const args = ["curl", "--protocol", "grpc", "--http2-prior-knowledge", "--list-methods", "http://" + concord.address];
    console.log((await promisify(execFile)(process.argv[2], args)).stdout);`;
  writeFileSync(join(installed, "reflect.mjs"), program);
  const methods = execFileSync(process.execPath, [join(installed, "reflect.mjs"), BUF], { cwd: installed, encoding: "utf8" });
  assert.match(methods, /concord\.txn\.v1\.TransactionService\/Commit/);
});
