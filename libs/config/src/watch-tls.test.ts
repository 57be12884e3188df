// Certificates that are replaced while the process runs.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { silentLog, type Clock } from "@concord/runtime";
import { watchTls, type TlsConfig } from "./index.ts";
import { serverShape } from "./server-shape.ts";
import { z } from "zod";

const folder = mkdtempSync(join(tmpdir(), "concord-watch-tls-"));
process.on("exit", () => rmSync(folder, { recursive: true }));

function pair(name: string): readonly [certificate: string, key: string] {
  const [key, certificate] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
  execFileSync("openssl", ["req", "-x509", ...curve, "-nodes", "-days", "2", "-keyout", key, "-out", certificate, "-subj", `/CN=${name}`], {
    stdio: "ignore",
  });
  return [readFileSync(certificate, "utf8"), readFileSync(key, "utf8")];
}

test("[SEC8] tls: files are read every 30 s; replaced one after the other: nothing until they fit together, then both transports get them, once", async () => {
  const [before, after] = [pair("before"), pair("after")];
  const files = { certificate: before[0], key: before[1] };
  let due: () => void = () => assert.fail("a timer is set");
  let timers = 0;
  const tick = async (): Promise<void> => {
    due();
    await new Promise(setImmediate);
  };
  const clock = {
    monotonicMs: () => 0,
    setTimer: (delayMs: number, action: () => void) => {
      assert.equal(delayMs, 30_000);
      [due, timers] = [action, timers + 1];
      return { cancel: () => void (timers = 0) };
    },
  } as unknown as Clock;
  const lines: string[] = [];
  const log = { ...silentLog, warn: (line: string) => void lines.push(line), info: (line: string) => void lines.push(line) };
  const config = z.object(serverShape).parse({ tlsCertificateFile: "certificate", tlsKeyFile: "key", tlsServerCaFile: "certificate" });
  const readFile = (path: string): string => {
    const text = files[path as keyof typeof files];
    if (text === "") throw new Error(`no such file: ${path}`);
    return text;
  };
  const watched = watchTls(config, { readFile, clock, log });
  const changes: (TlsConfig | object)[] = [];
  watched.grpc.tlsChanges!((tls) => changes.push(tls));
  watched.http.tlsChanges!((tls) => changes.push(tls));
  assert.equal(watched.http.tls!.certificate, before[0]);
  await tick();
  files.certificate = "";
  await tick();
  await tick();
  files.certificate = after[0];
  await tick();
  await tick();
  assert.deepEqual(changes, []);
  files.key = after[1];
  await tick();
  await tick();
  const server = { certificate: after[0], key: after[1] };
  assert.deepEqual(changes, [{ server, channel: { serverCa: after[0], ...server } }, server]);
  const refused = "certificates cannot be replaced; those before stay in use";
  assert.deepEqual(lines, [refused, refused, "certificates replaced"]);
  watched.close();
  assert.equal(timers, 0);
});

test("tls: off: no files are read, no timer is set", () => {
  const none = (): never => assert.fail("not called");
  const watched = watchTls(z.object(serverShape).parse({}), {
    readFile: none,
    clock: { setTimer: none } as unknown as Clock,
    log: silentLog,
  });
  assert.deepEqual([watched.grpc, watched.http], [{}, {}]);
});
