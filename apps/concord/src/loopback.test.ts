// Where the five programs listen when no address is configured: read from the system, not from their configuration.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { z } from "@concord/config";
import { dedupWorkerSchema } from "@concord/dedup-worker";
import { objectGatewaySchema } from "@concord/object-gateway";
import { storageProxySchema } from "@concord/storage-proxy";
import { txnCoordinatorSchema } from "@concord/txn-coordinator";
import { concordSchema } from "./config.ts";
import { ACCESS_KEY } from "./test/memory-node.ts";

const KEYS = ["--access-keys", JSON.stringify([ACCESS_KEY])];
const STORAGE = JSON.stringify([{ name: "a", address: "127.0.0.1:1", datacenter: "local" }]);

/** The smallest command line of each program but for its folder, the line of its log after which all its ports are bound, and how many these are. */
const PROGRAMS: readonly {
  readonly name: string;
  readonly schema: z.ZodObject;
  readonly args: string[];
  readonly bound: string;
  readonly ports: number;
}[] = [
  { name: "concord", schema: concordSchema, args: KEYS, bound: "ready", ports: 3 },
  { name: "storage-proxy", schema: storageProxySchema, args: [], bound: "serving", ports: 2 },
  { name: "txn-coordinator", schema: txnCoordinatorSchema, args: ["--storage-proxies", STORAGE], bound: "listening", ports: 2 },
  { name: "object-gateway", schema: objectGatewaySchema, args: KEYS, bound: "serving", ports: 3 },
  { name: "dedup-worker", schema: dedupWorkerSchema, args: [], bound: "serving", ports: 2 },
];

/** State of a listening TCP socket, and of a UDP socket that is bound. */
const STATES: Readonly<Record<string, string>> = { tcp: "0A", tcp6: "0A", udp: "07", udp6: "07" };
const IPV4 = /^([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2})([0-9A-F]{2})$/;

/** Addresses at which a process takes connections and datagrams: as a.b.c.d, or what the system has of one of IPv6. */
function addressesOf(pid: number): readonly string[] {
  const sockets = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)));
  return Object.entries(STATES).flatMap(([protocol, listening]) =>
    readFileSync(`/proc/${pid}/net/${protocol}`, "utf8")
      .split("\n")
      .slice(1)
      .flatMap((line) => {
        const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
        if (state !== listening || !sockets.has(`socket:[${inode}]`)) return [];
        const [address = ""] = local.split(":");
        // The bytes of the system are in reverse.
        const bytes = IPV4.exec(address)?.slice(1).toReversed();
        return [bytes?.map((byte) => Number.parseInt(byte, 16)).join(".") ?? address];
      }),
  );
}

/** A descriptor may be closed meanwhile. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

async function bound(child: ChildProcess, message: string): Promise<void> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout! })) {
    lines.push(line);
    if ((JSON.parse(line) as { readonly message: string }).message === message) return;
  }
  assert.fail(`the process ended before it logged ${message}:\n${lines.join("\n")}`);
}

for (const { name, schema, args, bound: message, ports } of PROGRAMS) {
  test(`[SEC1] loopback: ${name}: no address configured: the system has it at 127.0.0.1 with every port, and nowhere else`, async () => {
    const folder = await mkdtemp(join(tmpdir(), "concord-loopback-"));
    const data = "dataFolder" in schema.shape ? ["--data-folder", folder] : [];
    const main = join(import.meta.dirname, `../../${name}/src/main.ts`);
    const child = spawn(process.execPath, [main, ...data, ...args], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await bound(child, message);
      assert.deepEqual(
        addressesOf(child.pid!),
        Array.from({ length: ports }, () => "127.0.0.1"),
      );
    } finally {
      child.kill("SIGKILL");
      await rm(folder, { recursive: true });
    }
  });

  test(`[SEC1] loopback: ${name}: each address it has by default is of loopback`, () => {
    const addresses = Object.entries(schema.shape).filter(([key]) => key.endsWith("Address"));
    assert.equal(addresses.length, ports);
    for (const [key, type] of addresses) assert.equal((type as z.ZodType).parse(undefined), "127.0.0.1:0", key);
  });
}
