// SIGTERM to the real program while a part of its Ceph cluster is gone, or there and silent.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { StartingProgram } from "@concord/adapter-node-runtime/testing";
import { conf, engine, flagsFor, newNamespace, recovered, report } from "./on-rados.ts";
import { call, newFolder, run, start, stop, type Program } from "./program.ts";

/** How a part of the cluster is away, and how it comes back. */
const AWAY = [
  { how: "is gone", leave: "kill", come: "start" },
  { how: "is there and silent", leave: "pause", come: "resume" },
] as const;

/** The node leaves, and is there again after the test, however it ends. */
function away(t: TestContext, node: "osd" | "mon", { leave, come }: (typeof AWAY)[number]): () => void {
  engine(leave, node);
  let isAway = true;
  const back = (): void => {
    if (isAway) engine(come, node);
    isAway = false;
  };
  t.after(back);
  return back;
}

/** With the shortest grace the process ends by force 5 s after SIGTERM, unless its stop ended. */
const NO_GRACE = ["--drain-grace-ms", "0"];
/** More than the adapter sends to the cluster at the same time. */
const UPLOADS = 80;
const BODY = "body ".repeat(10_000);

const waits = (program: StartingProgram, what: string): Promise<unknown> =>
  program.line(({ message, for: waited }) => message === "the start waits" && waited?.startsWith(what) === true);

/** Exit code and signal of a program that serves. */
function terminated({ child }: Program): Promise<unknown> {
  child.kill("SIGTERM");
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve([code, signal])));
}

for (const kind of AWAY) {
  test(`[OPS1] on RADOS: SIGTERM while the start waits for a monitor that ${kind.how}: it ends in order, exit 0`, async (t) => {
    away(t, "mon", kind);
    const program = new StartingProgram(run(await newFolder(), [...flagsFor(newNamespace()), ...NO_GRACE]));
    await waits(program, `the pool concord of the Ceph cluster in ${conf}`);
    program.child.kill("SIGTERM");
    // The program tries to connect for 10 s. This one, which is as slow on a busy machine, ends before.
    const other = spawn("ceph", ["-c", conf, "--connect-timeout", "5", "mon", "stat"], { stdio: "ignore" });
    t.after(() => other.kill("SIGKILL"));
    assert.deepEqual(await Promise.race([program.exited, once(other, "exit").then(() => "the other program")]), [0, null]);
  });

  test(`[OPS1] on RADOS: SIGTERM while the start waits for an OSD that ${kind.how}: it ends in order, exit 0`, async (t) => {
    away(t, "osd", kind);
    const program = new StartingProgram(run(await newFolder(), [...flagsFor(newNamespace()), ...NO_GRACE]));
    await waits(program, "the rows of objects");
    program.child.kill("SIGTERM");
    assert.deepEqual(await program.exited, [0, null]);
  });

  for (const uploads of [0, UPLOADS])
    test(`[OPS1] on RADOS: SIGTERM with ${uploads} uploads in flight while the OSD ${kind.how}: exit 0; then nothing is lost or leaked`, async (t) => {
      const [folder, flags] = [await newFolder(), [...flagsFor(newNamespace()), ...NO_GRACE]];
      const program = await start(folder, flags);
      await call(program, "PUT", "/bucket");
      assert.equal((await call(program, "PUT", "/bucket/before", BODY)).status, 200);
      const back = away(t, "osd", kind);
      const inFlight = Array.from({ length: uploads }, (_, at) =>
        call(program, "PUT", `/bucket/${at}`, BODY).then(
          ({ status }) => status,
          () => undefined,
        ),
      );
      assert.deepEqual(await terminated(program), [0, null]);
      const statuses = await Promise.all(inFlight);
      back();
      const again = await start(folder, flags);
      await recovered(again);
      const { leaked, dangling } = await report(again);
      assert.deepEqual([leaked, dangling], [[], []]);
      for (const key of ["before", ...statuses.flatMap((status, at) => (status === 200 ? [`${at}`] : []))])
        assert.equal((await call(again, "GET", `/bucket/${key}`)).body, BODY);
      await stop(again, "SIGTERM");
    });
}
