// The admin page /tasks of each program, as a process of its own.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import type { TaskStatus } from "@concord/runtime";
import { EventPrograms, KEY } from "./test/event-programs.ts";
import { Processes } from "./test/process.ts";

const folder = await mkdtemp(join(tmpdir(), "concord-tasks-page-"));
const programs = new EventPrograms();
const processes = new Processes();
after(async () => {
  programs.end();
  processes.end();
  await rm(folder, { recursive: true });
});

const keys = { CONCORD_ACCESS_KEYS: JSON.stringify([KEY]) };
const token = { CONCORD_COORDINATOR_TOKEN: "only-for-the-test-of-this-page-0123456789" };
const folderOf = (name: string): { CONCORD_DATA_FOLDER: string } => ({ CONCORD_DATA_FOLDER: join(folder, name) });

async function tasksAt(adminAddress: string): Promise<readonly TaskStatus[]> {
  const { tasks } = (await (await fetch(`http://${adminAddress}/tasks`)).json()) as { tasks: TaskStatus[] };
  assert.equal(new Set(tasks.map(({ name }) => name)).size, tasks.length, "each has a name of its own");
  for (const { name, state, steps, failures, nextInMs } of tasks) {
    assert.ok(state === "running" || state === "waiting", `${name}: ${state}`);
    assert.ok(steps >= 0 && failures >= 0 && (nextInMs ?? 0) >= 0, name);
  }
  return tasks;
}

const namesOf = (tasks: readonly TaskStatus[]): readonly string[] => tasks.map(({ name }) => name);

test("[OPS27] tasks: each service by itself lists its background work", async () => {
  const storage = await programs.start("storage-proxy", { ...folderOf("storage"), ...token });
  assert.ok(namesOf(await tasksAt(storage.admin)).includes("storage: space of the disks"));
  const proxies = JSON.stringify([{ name: "storage", address: storage.address, datacenter: "dc1" }]);
  const coordinator = await programs.start("txn-coordinator", { CONCORD_STORAGE_PROXIES: proxies, ...token });
  assert.ok(namesOf(await tasksAt(coordinator.admin)).includes("transactions: space of the storage"));
  const gateway = await programs.start("object-gateway", { ...folderOf("objects"), ...keys });
  assert.ok(namesOf(await tasksAt(gateway.admin)).includes("objects: garbage collection"));
  const worker = await programs.start("dedup-worker", folderOf("messages"));
  assert.ok(namesOf(await tasksAt(worker.admin)).includes("messages: figures of the partitions"));
});

test("[OPS27] tasks: a concord lists those of all its services", async () => {
  const { adminAddress } = await processes.start(["--data-folder", join(folder, "concord")]);
  const tasks = await tasksAt(adminAddress);
  for (const service of ["storage", "transactions", "objects", "messages"])
    assert.ok(
      tasks.some(({ name }) => name.startsWith(`${service}: `)),
      `${service}: ${namesOf(tasks).join(", ")}`,
    );
  for (const service of ["storage", "objects", "messages"]) assert.ok(namesOf(tasks).includes(`${service}: space of the disks`), service);
});
