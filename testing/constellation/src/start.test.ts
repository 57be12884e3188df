// `npm start` as a user runs it, with the real program: what is left when the launcher is killed without a chance to end anything.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { reservePorts, takenOf } from "./ports.ts";
import { until } from "./until.ts";

const BOOTSTRAP = join(import.meta.dirname, "../../../tools/bootstrap/main.mjs");
/** Ports above the base that one process with everything listens on: gRPC, admin, S3. */
const [GRPC, ADMIN, S3] = [1, 11, 21];

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("npm start: SIGKILL of its launcher: start and node drain and end; folder and ports are free", async (context: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), "concord-start-"));
  const data = join(folder, "data");
  const reserved = await reservePorts(S3);
  const portBase = reserved.ports[0]! - 1;
  const launcher = spawn(process.execPath, [BOOTSTRAP, "start", "--data", data, "--port-base", String(portBase)]);
  let output = "";
  for (const stream of [launcher.stdout, launcher.stderr]) stream.on("data", (chunk: Buffer) => void (output += chunk.toString()));
  const pids = (): number[] =>
    ["lock", "processes"].flatMap((file) =>
      existsSync(join(data, file))
        ? [...readFileSync(join(data, file), "utf8").matchAll(/"pid":(\d+)/g)].map(([, pid]) => Number(pid))
        : [],
    );
  context.after(async () => {
    launcher.kill("SIGKILL");
    for (const pid of pids().filter(isAlive)) process.kill(pid, "SIGKILL");
    await reserved.release();
    rmSync(folder, { recursive: true, force: true });
  });
  await until("ready", () => Promise.resolve(output.includes("ready in"))).catch((error: unknown) =>
    assert.fail(`${String(error)}\n${output}`),
  );
  const started = pids();
  assert.equal(started.length, 2, "npm start and its node");
  launcher.kill("SIGKILL");
  await until("the end of what was started", () => Promise.resolve(!started.some(isAlive)));
  assert.match(output, /draining[^]*stopped/);
  assert.equal(existsSync(join(data, "lock")), false);
  assert.deepEqual(await takenOf([GRPC, ADMIN, S3].map((offset) => `127.0.0.1:${portBase + offset!}`)), []);
});
