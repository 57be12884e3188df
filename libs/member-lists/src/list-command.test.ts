// The command alone; what it does to a list of coordinators and of workers is tested in their apps.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemberListService, type GetListResponse } from "@concord/protos-cluster";
import { ConcordError, type Channel, type Clock, type Transport } from "@concord/runtime";
import { endWithListCommand, listCommandOf, listUsage, COORDINATOR_LIST, WORKER_LIST } from "./index.ts";

const clock = { monotonicMs: () => 0, setTimer: () => ({ cancel: () => undefined }) } as unknown as Clock;

function processOf(...argv: string[]): { readonly process: Parameters<typeof listCommandOf>[1]; readonly out: string[] } {
  const out: string[] = [];
  const stream = { write: (text: string) => out.push(text) };
  const exit = (code: number): never => {
    out.push(`exit ${code}`);
    throw new Error("exit");
  };
  return { process: { argv: ["node", "main.ts", ...argv], env: {}, stdout: stream, stderr: stream, exit }, out };
}

/** Members that answer GetList, by address; any other does not answer. */
function transportOf(answers: Readonly<Record<string, GetListResponse>>): { readonly transport: Transport; readonly asked: string[] } {
  const asked: string[] = [];
  const connect = (address: string): Channel => {
    const unary = async (method: object, request: { readonly kind: string }): Promise<object> => {
      assert.equal(method, MemberListService.methods.GetList);
      asked.push(`${address} ${request.kind}`);
      const answer = answers[address];
      if (answer === undefined) throw new ConcordError("CONNECTION_LOST", `${address} does not answer`);
      return answer;
    };
    return { unary, close: () => undefined } as unknown as Channel;
  };
  return { transport: { connect } as Transport, asked };
}

const LIST: GetListResponse = {
  version: 0,
  members: [{ name: "w1", address: "w1:1", datacenter: "d1", state: "LISTED_STATE_MEMBER" }],
};

test("[TX32] command: list, with options behind it: printed as a table, exit 0; one that does not answer is passed over", async () => {
  const { process, out } = processOf("workers", "list", "--config", "x.json");
  const parsed = listCommandOf(WORKER_LIST, process);
  assert.deepEqual([parsed.command, parsed.process.argv], [{ kind: "list" }, ["node", "main.ts", "--config", "x.json"]]);
  const { transport, asked } = transportOf({ "b:1": LIST });
  const options = { list: WORKER_LIST, addresses: ["a:1", "b:1"], transport, token: "t", clock, process };
  await assert.rejects(endWithListCommand(parsed.command!, options), /exit/);
  assert.equal(out.join(""), "version 0 (as configured)\n  w1 w1:1 d1 member\nexit 0");
  assert.deepEqual(asked, ["a:1 MEMBER_KIND_WORKER", "b:1 MEMBER_KIND_WORKER"]);
});

test("command: none answers: the reason, exit 1", async () => {
  const { process, out } = processOf("workers", "list");
  const options = { list: WORKER_LIST, addresses: ["a:1"], transport: transportOf({}).transport, token: undefined, clock, process };
  await assert.rejects(endWithListCommand({ kind: "list" }, options), /exit/);
  assert.match(out.join(""), /^workers list: .*a:1 does not answer.*exit 1$/s);
});

for (const argv of [
  ["coordinators"],
  ["coordinators", "add", "c3"],
  ["coordinators", "add", "c3", "nowhere", "d"],
  ["coordinators", "remove"],
]) {
  test(`command: ${argv.join(" ")}: usage, exit 2`, () => {
    const { process, out } = processOf(...argv);
    assert.throws(() => listCommandOf(COORDINATOR_LIST, process), /exit/);
    assert.equal(out.join(""), `${listUsage(COORDINATOR_LIST)}exit 2`);
  });
}

test("command: none: the process as it is", () => {
  for (const argv of [
    ["--config", "x.json"],
    ["coordinators", "list"],
  ]) {
    const { process } = processOf(...argv);
    assert.deepEqual(listCommandOf(WORKER_LIST, process), { command: undefined, process });
  }
});
