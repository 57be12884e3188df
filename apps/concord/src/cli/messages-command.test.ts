// `concord messages` against a node in this process.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startConcord } from "../index.ts";
import { runVerbHere, type VerbOptions, type VerbRun } from "../test/verbs.ts";
import { messagesCommand } from "./messages-command.ts";

const concord = await startConcord();
after(() => concord.stop());

const messages = (args: readonly string[], options?: VerbOptions): Promise<VerbRun> =>
  runVerbHere(messagesCommand, [...args, "--address", concord.address], options);
const lines = ({ out }: VerbRun): readonly Record<string, unknown>[] =>
  out
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test("messages: ingest: a value, the same id again, lines of standard input; each verdict is printed", async () => {
  const first = lines(await messages(["ingest", "hello", "--id", "m-1", "--json"]));
  const again = lines(await messages(["ingest", "hello", "--id", "m-1", "--json"]));
  assert.deepEqual([first[0]!["verdict"], again[0]!["verdict"]], ["accepted", "duplicate"]);
  const input = '{"id":"m-2","value":"two","key":"k"}\n{"id":"m-1","value":"hello"}\n{"id":"m-3","value":null}\n';
  const piped = await messages(["ingest", "-", "--json"], { input });
  assert.deepEqual(
    [piped.code, lines(piped).map(({ id, verdict }) => [id, verdict])],
    [
      0,
      [
        ["m-2", "accepted"],
        ["m-1", "duplicate"],
        ["m-3", "accepted"],
      ],
    ],
  );
});

test("messages: bounds and tail: each message once, a tombstone's value is null, --limit ends it", async () => {
  const bounds = lines(await messages(["bounds", "--json"]));
  assert.equal(
    bounds.reduce((sum, { messages: count }) => sum + (count as number), 0),
    3,
  );
  const { code, out } = await messages(["tail", "--from", "0", "--limit", "3", "--json"]);
  assert.equal(code, 0);
  const shown = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { id: string; value: string | null; key: string | null });
  const byId = new Map(shown.map(({ id, value, key }) => [id, [value, key]]));
  assert.deepEqual(
    ["m-1", "m-2", "m-3"].map((id) => byId.get(id)),
    [
      ["hello", null],
      ["two", "k"],
      [null, null],
    ],
  );
});

test("messages: tail without --from: what comes from then on, until its end is asked for", async () => {
  const stopping = new AbortController();
  const seen = Promise.withResolvers<void>();
  const tail = messages(["tail"], { signal: stopping.signal, onOutput: (out) => void (/ m-\d+ .*news/.test(out) && seen.resolve()) });
  // Until the tail has found where the logs end, what is sent may lie before it.
  for (let n = 10, isSeen = false; !isSeen; n += 1) {
    await messages(["ingest", "news", "--id", `m-${n}`]);
    isSeen = await Promise.race([seen.promise.then(() => true), new Promise<false>((resolve) => setTimeout(() => resolve(false), 50))]);
  }
  stopping.abort();
  const { code, out } = await tail;
  assert.equal(code, 0);
  assert.doesNotMatch(out, /hello/);
});

test("messages: bad input: exit code 2 and what is wrong", async () => {
  const cases: readonly (readonly [readonly string[], string, RegExp])[] = [
    [["ingest"], "", /give a VALUE, or - for standard input/],
    [["ingest", "a", "b", "--id", "x"], "", /--id is of one VALUE/],
    [["ingest", "-", "--json"], "{}\n", /a line needs value/],
    [["ingest", "-", "--json"], "nothing\n", /no JSON object: nothing/],
    [["tail", "--topic", "input"], "", /--topic takes output or dead-letters/],
    [["drop"], "", /drop is none of bounds, tail, ingest/],
    [["tail", "--from", "-1"], "", /--from/],
  ];
  for (const [args, input, reason] of cases) {
    const { code, err } = await messages(args, { input });
    assert.equal(code, 2, args.join(" "));
    assert.match(err, reason);
  }
  const partition = await messages(["tail", "--partition", "99", "--from", "0"]);
  assert.equal(partition.code, 1);
  assert.match(partition.err, /partition/);
});
