import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { runSample, sampleOf, unpackInto } from "./installed.ts";
import { withoutTimes } from "./release-check.ts";
import { LIBRARIES, packLibraries, PRODUCTS } from "./libraries.ts";

const ROOT = resolve(import.meta.dirname, "../..");
let folder: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-libraries-"));
  unpackInto(folder, await packLibraries(join(folder, "packed")));
  // Dependencies as an install would bring them, without asking a registry.
  for (const name of ["@node-rs", "hash-wasm", "level", "@types"])
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
});

after(() => rmSync(folder, { recursive: true, force: true }));

const packageFolder = (lib: string): string => join(folder, "node_modules/@concord", lib);

test("libraries: manifests name published packages with ranges, and nothing of the workspace", () => {
  for (const lib of Object.keys(LIBRARIES)) {
    const manifest = JSON.parse(readFileSync(join(packageFolder(lib), "package.json"), "utf8")) as {
      readonly dependencies: Readonly<Record<string, string>>;
      readonly exports: Readonly<Record<string, unknown>>;
      readonly private?: boolean;
    };
    assert.equal(manifest.private, undefined);
    assert.ok(Object.keys(manifest.exports).includes("."), lib);
    for (const [name, range] of Object.entries(manifest.dependencies)) {
      assert.match(range, /^\^?\d+\.\d+\.\d+$/, `${lib} needs ${name}`);
      if (name.startsWith("@concord/")) assert.ok(name.slice("@concord/".length) in LIBRARIES, `${lib} needs ${name}`);
    }
  }
});

test("libraries: packages hold no test, no TypeScript source, and no import of one", () => {
  for (const lib of Object.keys(LIBRARIES)) {
    const files = globSync("**/*", { cwd: join(packageFolder(lib), "dist") });
    assert.ok(files.some((path) => path === "index.js"));
    assert.deepEqual(
      files.filter((path) => /\.test\.|(^|\/)test(\/|$)|(?<!\.d)\.ts$/.test(path)),
      [],
    );
    for (const path of files.filter((one) => /\.(js|d\.ts)$/.test(one))) {
      assert.doesNotMatch(
        readFileSync(join(packageFolder(lib), "dist", path), "utf8"),
        /(from|import\(|new URL\() ?"\.[^"]*(?<!\.d)\.ts"/,
        `${lib}: ${path}`,
      );
    }
  }
});

test("libraries: source maps name sources from the root of the repository and have their text", () => {
  for (const lib of Object.keys(LIBRARIES)) {
    for (const path of globSync("**/*.js.map", { cwd: packageFolder(lib) })) {
      const map = JSON.parse(readFileSync(join(packageFolder(lib), path), "utf8")) as Record<"sources" | "sourcesContent", string[]>;
      assert.deepEqual(map.sources, [path.replace("dist/", `libs/${lib}/src/`).replace(/\.js\.map$/, ".ts")]);
      assert.equal(typeof map.sourcesContent[0], "string");
    }
  }
});

for (const lib of PRODUCTS) {
  test(`libraries: the sample of ${lib} prints what its README says`, () => {
    const sample = sampleOf(join(ROOT, "libs", lib, "README.md"));
    const printed = runSample(folder, lib, sample, process.execPath);
    assert.equal(withoutTimes(printed), withoutTimes(sample.prints));
  });
}

test("libraries: a strict TypeScript program compiles against the types of all of them", () => {
  const imports = Object.keys(LIBRARIES).map((lib, at) => `import * as lib${at} from "@concord/${lib}";`);
  const uses = Object.keys(LIBRARIES).map((_, at) => `lib${at}`);
  const misuse = "// @ts-expect-error: a worker id is a number\nlib0.openGuidSource({ workerId: '7' });";
  writeFileSync(join(folder, "use.ts"), `${imports.join("\n")}\nexport const all = [${uses.join(", ")}];\n${misuse}\n`);
  const options = {
    strict: true,
    noEmit: true,
    module: "nodenext",
    target: "es2022",
    lib: ["es2023", "esnext.disposable"],
    types: ["node"],
    skipLibCheck: false,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["use.ts"] }));
  execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", folder], {
    stdio: ["ignore", "inherit", "inherit"],
  });
});
