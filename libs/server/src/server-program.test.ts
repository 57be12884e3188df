import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test } from "node:test";
import { serverShape, z } from "@concord/config";
import { ConcordError, silentLog, StartWaits, StopProgress, type Clock, type Random } from "@concord/runtime";
import { runServer, ServerProgram, type Machine, type ProgramEnvironment } from "./index.ts";

const clock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Date.now()) * 1_000n,
  monotonicMs: () => performance.now(),
  setTimer: (afterMs, callback) => {
    const timer = setTimeout(callback, afterMs).unref();
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (callback) => void setImmediate(callback),
} as Clock;
const random: Random = { bytes: (length) => new Uint8Array(length), below: () => 0, float: () => 0 } as Random;
const machine: Machine = {
  clock,
  random,
  openFilesMax: () => 1_024,
  environment: (parts) =>
    ({
      ...parts,
      clock,
      random,
      startWaits: new StartWaits({ clock, log: silentLog }),
      stopProgress: new StopProgress(),
    }) as unknown as ProgramEnvironment,
};

class FakeProcess extends EventEmitter {
  exit(code: number): void {
    this.emit("exit", code);
  }
  umask(): void {}
}

/** A program whose service starts and stops when the test lets it, and what its admin port answers. */
function begin(): {
  readonly program: ServerProgram<z.output<typeof schema>>;
  readonly process: FakeProcess;
  readonly ended: Promise<unknown[]>;
  readonly steps: { readonly started: PromiseWithResolvers<object>; readonly stopped: PromiseWithResolvers<void> };
  readonly admin: Promise<string>;
  status(): Promise<string>;
} {
  const process = new FakeProcess();
  const ended = once(process, "exit");
  const admin = Promise.withResolvers<string>();
  const info = (message: string, fields?: { readonly address?: string }): void => {
    if (message === "admin") admin.resolve(fields!.address!);
  };
  const settings = {
    name: "sample",
    config: schema.parse({}),
    build: { version: "0.1.0", commit: "unknown", node: "26" },
    log: { ...silentLog, info },
  };
  const program = new ServerProgram({ ...settings, definitions: [], env: undefined, machine });
  const steps = { started: Promise.withResolvers<object>(), stopped: Promise.withResolvers<void>() };
  let ready = false;
  const start = (): Promise<object> => steps.started.promise.finally(() => (ready = true));
  const service = {
    start,
    stop: () => steps.stopped.promise,
    get ready(): boolean {
      return ready;
    },
  };
  void runServer(program, async () => ({ name: "the sample", service }), process);
  const status = async (): Promise<string> => {
    const response = await fetch(`http://${await admin.promise}/readyz`);
    return `${response.status} ${(await response.text()).trim()}`;
  };
  return { program, process, ended, steps, admin: admin.promise, status };
}

const schema = z.strictObject({ ...serverShape, nodeName: z.string().default("sample") });

test("server program: the start and the stop go on: /readyz answers, 503; the admin port closes with the end", async () => {
  const { process, ended, steps, status } = begin();
  assert.match(await status(), /^503/);
  steps.started.resolve({});
  await steps.started.promise;
  assert.equal(await status(), "200 ready");
  process.emit("SIGTERM", "SIGTERM");
  assert.match(await status(), /^503/);
  steps.stopped.resolve();
  assert.deepEqual(await ended, [0]);
  await assert.rejects(status());
});

test("server program: it cannot go on: stops as after a signal, then exits with 1", async () => {
  const { program, ended, steps, admin } = begin();
  steps.started.resolve({});
  await admin;
  program.onFailed(new ConcordError("STORE_FAILED", "the disk fails"));
  steps.stopped.resolve();
  assert.deepEqual(await ended, [1]);
});
