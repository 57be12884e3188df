// Many large uploads at once: bodies pass through, they are not gathered. The real program, measured from outside. Slow: 3 GiB.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, statfsSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { ANN } from "./test/gateway.ts";
import { send } from "./test/http-client.ts";
import { newFolder, start, stop } from "./test/program.ts";
import { sign } from "./test/signing.ts";

const MIB = 1024 * 1024;
const UPLOADS = 32;
const UPLOAD_BYTES = 100 * MIB;
const GROWTH_BYTES_MAX = 8 * MIB;
const CHUNK = Buffer.alloc(256 * 1024, "concord");

const { bavail, bsize } = statfsSync(tmpdir());
const roomBytes = bavail * bsize;
const neededBytes = 2 * UPLOADS * UPLOAD_BYTES;
const skip =
  process.platform !== "linux"
    ? "the memory of another process is read from /proc: Linux only"
    : roomBytes < neededBytes
      ? `needs ${neededBytes / MIB} MiB of disk, there are ${Math.floor(roomBytes / MIB)}`
      : false;

/** Writes the body by its own pace: the program's memory is measured, not that of the client. */
async function upload(address: string, key: string): Promise<number> {
  const headers = { "content-length": String(UPLOAD_BYTES) };
  const signed = sign({ method: "PUT", path: `/bucket/${key}`, headers }, { key: ANN, host: address, payload: "UNSIGNED-PAYLOAD" });
  const [host, port] = address.split(":") as [string, string];
  const sent = request({ host, port, method: "PUT", path: signed.target, headers: signed.headers, agent: false });
  const answered = once(sent, "response");
  for (let bytes = 0; bytes < UPLOAD_BYTES; bytes += CHUNK.length) if (!sent.write(CHUNK)) await once(sent, "drain");
  sent.end();
  const [response] = (await answered) as [{ statusCode: number; resume(): void }];
  response.resume();
  return response.statusCode;
}

function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) * 1024;
}

test("memory: 32 uploads of 100 MiB at once: less than 8 MiB more for each", { skip, timeout: 300_000 }, async () => {
  const program = await start(await newFolder(), []);
  const { child, httpAddress: address } = program;
  try {
    await send(address, sign({ method: "PUT", path: "/bucket" }, { key: ANN, host: address }));
    // What every process takes once, whatever it does.
    assert.equal(await upload(address, "first"), 200);
    const before = residentBytes(child.pid!);
    let highest = before;
    const watch = setInterval(() => (highest = Math.max(highest, residentBytes(child.pid!))), 50);
    const statuses = await Promise.all(Array.from({ length: UPLOADS }, (_, at) => upload(address, `upload-${at}`)));
    clearInterval(watch);
    assert.deepEqual(new Set(statuses), new Set([200]));
    const growth = (highest - before) / UPLOADS;
    assert.ok(growth < GROWTH_BYTES_MAX, `${(growth / MIB).toFixed(1)} MiB more for each upload`);
    console.log(
      `${(before / MIB).toFixed(0)} MiB before, at most ${(highest / MIB).toFixed(0)} MiB: ${(growth / MIB).toFixed(2)} MiB for each upload`,
    );
  } finally {
    await stop(program, "SIGKILL");
  }
});
