// protoc-gen-go and protoc-gen-go-grpc over all contracts, compiled with a client that is then run.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { expectedReport, VECTORS_FILE } from "./expected.ts";
import { startServer } from "./server.ts";
import { download, goMissing, pathWith, PROTOS, run } from "./toolchain.ts";

const SOURCE = join(import.meta.dirname, "../go");
const BUF = join(import.meta.dirname, "../../../node_modules/.bin/buf");
const PLUGINS = ["google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"];

const missing = await goMissing();

test(
  "Go: all contracts: compile; a client calls, reads google.rpc details from genproto, computes tokens",
  { skip: missing },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "concord-go-client-"));
    t.after(() => rmSync(folder, { recursive: true }));
    cpSync(SOURCE, folder, { recursive: true });
    const bin = join(folder, "bin");
    mkdirSync(bin);
    const go = (...args: string[]): Promise<string> => run("go", args, { cwd: folder });
    const unreachable = await download("the Go module proxy", () => go("build", "-trimpath", "-o", bin, ...PLUGINS));
    if (unreachable !== undefined) return t.skip(unreachable);
    await run(BUF, ["generate", "-o", folder], { cwd: PROTOS, env: { PATH: pathWith(bin) } });
    await go("build", "-trimpath", "./...");
    const client = join(bin, "client");
    await go("build", "-trimpath", "-o", client, ".");
    const server = await startServer();
    t.after(() => server.drain(0));
    const report: unknown = JSON.parse(await run(client, [server.address, VECTORS_FILE]));
    assert.deepEqual(report, expectedReport("Unavailable"));
  },
);
