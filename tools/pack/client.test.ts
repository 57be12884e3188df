import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { packClient } from "./client.ts";

const ROOT = resolve(import.meta.dirname, "../..");
let folder: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-pack-"));
  const packed = await packClient(folder);
  mkdirSync(join(folder, "node_modules/@concord/client"), { recursive: true });
  execFileSync("tar", ["-xzf", packed, "-C", join(folder, "node_modules/@concord/client"), "--strip-components=1"]);
  // Dependencies as an install would bring them, without asking a registry.
  for (const name of ["@grpc", "@types"]) symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
});

after(() => rmSync(folder, { recursive: true, force: true }));

test("package: manifest: no workspace package, dependencies with versions", () => {
  const manifest = JSON.parse(readFileSync(join(folder, "node_modules/@concord/client/package.json"), "utf8")) as {
    dependencies: object;
    engines: object;
  };
  assert.deepEqual(Object.keys(manifest.dependencies), ["@grpc/grpc-js"]);
  for (const version of Object.values(manifest.dependencies)) assert.match(String(version), /^\^?\d+\.\d+\.\d+$/);
  assert.deepEqual(manifest.engines, { node: ">=20" });
});

test("package: plain JavaScript: imports, and a dead address is an error of the client's own class", () => {
  const script = `
    import { connect, ConcordClientError, typed } from "@concord/client";
    const error = await connect({ coordinators: ["127.0.0.1:1"], timeoutMs: 30_000 }).catch((e) => e);
    console.log(JSON.stringify([error instanceof ConcordClientError, error.code, error.applied, typed.uuid("0192f0c1d2e37abc8def0123456789ab").kind]));`;
  writeFileSync(join(folder, "use.js"), script);
  const [isOurs, code, applied, kind] = JSON.parse(
    execFileSync(process.execPath, [join(folder, "use.js")], { encoding: "utf8" }),
  ) as unknown[];
  assert.deepEqual([isOurs, code, applied, kind], [true, "CONNECTION_LOST", "no", "uuid"]);
});

test("package: source map: names sources from the root of the repository and has their text", () => {
  const map = JSON.parse(readFileSync(join(folder, "node_modules/@concord/client/index.js.map"), "utf8")) as {
    readonly sources: readonly string[];
    readonly sourcesContent: readonly (string | null)[];
  };
  assert.deepEqual(
    map.sources.filter((path) => !/^(libs|protos)\//.test(path)),
    [],
  );
  assert.ok(map.sources.includes("libs/client/src/connect.ts"));
  assert.ok(map.sourcesContent.every((text) => typeof text === "string"));
});

test("package: types: a strict TypeScript program compiles against them alone", () => {
  const program = `
    import { connect, type ConcordClient } from "@concord/client";
    interface Album { id: bigint; public_photos: number }
    export async function addPhoto(db: ConcordClient, id: bigint, photo: string): Promise<void> {
      await db.runTransaction({ table: "albums", key: { id } }, async (txn) => {
        const album = await txn.lock<Album>("albums", { id });
        if (album === undefined) throw new Error("no such album");
        txn.insert("photos", { album: id, id: photo, modified: new Date(0), public: true });
        txn.update("albums", { id, public_photos: album.public_photos + 1 });
      });
    }
    // @ts-expect-error: an address is a string
    export const wrong = connect({ coordinators: [7] });`;
  writeFileSync(join(folder, "use.ts"), program);
  const options = { strict: true, noEmit: true, module: "nodenext", target: "es2022", types: [], skipLibCheck: false };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["use.ts"] }));
  execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", folder], {
    stdio: ["ignore", "pipe", "pipe"],
    encoding: "utf8",
  });
});
