import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { readCommandLine, USAGE, type CommandLine } from "./command-line.ts";

const NONE = { oneDatacenter: false, data: undefined, nodes: undefined, node: undefined };

test("engines: command lines: read", () => {
  assert.deepEqual(readCommandLine(["start", "kafka"]), { ...NONE, command: "start", engine: "kafka" });
  const three = readCommandLine(["start", "cassandra", "--nodes", "3", "--data", "/tmp/c"]);
  assert.deepEqual(three, { ...NONE, command: "start", engine: "cassandra", nodes: 3, data: "/tmp/c" });
  const racks: CommandLine = { ...NONE, command: "start", engine: "cassandra", oneDatacenter: true };
  assert.deepEqual(readCommandLine(["start", "cassandra", "--one-dc"]), racks);
  assert.deepEqual(readCommandLine(["pause", "ceph", "--node", "osd"]), { ...NONE, command: "pause", engine: "ceph", node: "osd" });
});

for (const [what, args, message] of [
  ["no command", [], /usage/],
  ["no engine", ["start"], /usage/],
  ["an unknown engine", ["start", "hbase"], /usage/],
  ["an unknown command", ["restart", "kafka"], /usage/],
  ["a word too many", ["start", "kafka", "now"], /usage/],
  ["no number of nodes", ["start", "kafka", "--nodes", "0"], /--nodes 0/],
  ["nodes of a running cluster", ["stop", "kafka", "--nodes", "1"], /belongs to start/],
  ["one datacenter of brokers", ["start", "kafka", "--one-dc"], /belongs to start cassandra/],
  ["an unknown option", ["start", "kafka", "--fast"], /--fast[^]*usage/],
] as const) {
  test(`engines: command line with ${what}: refused`, () => assert.throws(() => readCommandLine(args), message));
}

test("engines: --help: every option, nothing else, exit code 0", () => {
  const main = join(import.meta.dirname, "main.ts");
  for (const args of [["--help"], ["-h"], ["start", "kafka", "--help"]]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
    assert.deepEqual({ status, stdout, stderr }, { status: 0, stdout: `${USAGE}\n`, stderr: "" });
  }
});
