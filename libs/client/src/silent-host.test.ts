// A program ends after `close`, although a host it called is silent: real processes, and a port whose kernel drops every SYN.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test, type TestContext } from "node:test";

/** Below the 133 s after which the kernel itself ends a connection attempt. */
const END_MS_MAX = 120_000;
/** More than a queue of one takes. */
const FILLERS = 8;

function node(t: TestContext, program: string): ChildProcess {
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"],
    cwd: import.meta.dirname,
  });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

/** A listener that is stopped, and whose queue of connections is full. */
async function silentHost(t: TestContext): Promise<string> {
  const program = `
    import { createServer } from "node:net";
    const server = createServer().listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => process.stdout.write(String(server.address().port)));`;
  const child = node(t, program);
  const port = Number(String((await once(child.stdout!, "data"))[0]));
  child.kill("SIGSTOP");
  const fillers = Array.from({ length: FILLERS }, (): Socket => connect({ host: "127.0.0.1", port }).on("error", () => undefined));
  t.after(() => {
    for (const filler of fillers) filler.destroy();
  });
  return `127.0.0.1:${port}`;
}

const PROGRAMS: Readonly<Record<string, (address: string) => string>> = {
  "connect fails": (address) => `
    import { connect } from "./index.ts";
    await connect({ coordinators: ["${address}"], timeoutMs: 500 }).catch(({ code, applied, message }) => console.log(code, applied, message));`,
  "close while a call waits": (address) => `
    import { connect } from "./index.ts";
    const db = await connect({ dedupWorker: "${address}" });
    const call = db.messages.bounds(0);
    setTimeout(() => db.close(), 200);
    await call.catch(({ code, applied, message }) => console.log(code, applied, message));`,
};

for (const [name, program] of Object.entries(PROGRAMS)) {
  test(`silent host: ${name}: the program ends by itself`, async (t) => {
    const child = node(t, program(await silentHost(t)));
    let printed = "";
    child.stdout!.on("data", (bytes) => (printed += String(bytes)));
    const end = setTimeout(() => child.kill("SIGKILL"), END_MS_MAX);
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    clearTimeout(end);
    assert.deepEqual([code, signal], [0, null], `the program was still there after ${END_MS_MAX} ms; it printed: ${printed}`);
    if (name === "connect fails")
      assert.match(printed, /^(CONNECTION_LOST|DEADLINE_EXCEEDED) no cannot connect: 127\.0\.0\.1:\d+ did not answer within 500 ms/);
    else assert.match(printed, /^[A-Z_]+ no /);
  });
}
