// The id service as clients see it, unary and over a session.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { IdService } from "@concord/protos-ids";
import { bearer, SessionClient } from "@concord/rpc";
import { partsOfGuid, TAKE_COUNT_MAX } from "@concord/snowflake";
import { CoordinatorFixture, fails, START_MS } from "./test/coordinator-fixture.ts";

interface Generated {
  readonly ranges: readonly { readonly first: bigint; readonly count: number }[];
  readonly workerId: number;
}

const FORMS = ["unary", "session"] as const;
type Form = (typeof FORMS)[number];

let fixture: CoordinatorFixture;
let sessions: SessionClient<IdService>[];

before(async () => {
  fixture = await new CoordinatorFixture().start();
  sessions = [undefined, "wrong"].map(
    (token) => new SessionClient({ channel: channel(), contract: IdService, clock: fixture.clock, metadata: bearer(token) }),
  );
});

after(() => fixture.stop());

const channel = () => fixture.transport.connect(fixture.addresses[0]!);

function generate(form: Form, request: object, token?: string): Promise<Generated> {
  const options = { timeoutMs: 5_000 };
  const answer =
    form === "unary"
      ? channel().unary(IdService.methods.Generate, request, { ...options, metadata: bearer(token) })
      : sessions[token === undefined ? 0 : 1]!.call("generate", request, options);
  return answer as Promise<Generated>;
}

for (const form of FORMS) {
  test(`[OG5] id service (${form}): any count within the limit: so many ids, ascending, in few ranges`, async () => {
    for (const [count, expected] of [
      [0, 1],
      [1, 1],
      [4_097, 4_097],
      [TAKE_COUNT_MAX, TAKE_COUNT_MAX],
    ] as const) {
      const answer = await generate(form, { count });
      assert.equal(
        answer.ranges.reduce((sum, range) => sum + range.count, 0),
        expected,
      );
      assert.ok(answer.ranges.length <= Math.ceil(expected / 4_096) + 1);
      for (const { first } of answer.ranges) {
        assert.equal(partsOfGuid(first).workerId, answer.workerId);
        assert.ok(partsOfGuid(first).timeMs >= START_MS);
      }
    }
  });

  test(`[S3] id service (${form}): calls at the same time: never a repeat`, async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => generate(form, { count: 1_000 })));
    const ranges = answers.flatMap((answer) => answer.ranges).toSorted((a, b) => (a.first < b.first ? -1 : 1));
    for (let at = 1; at < ranges.length; at += 1) assert.ok(ranges[at]!.first >= ranges[at - 1]!.first + BigInt(ranges[at - 1]!.count));
  });

  for (const [what, request, code] of [
    ["one more than the limit", { count: TAKE_COUNT_MAX + 1 }, "LIMIT_EXCEEDED"],
    ["the largest number", { count: 2 ** 32 - 1 }, "LIMIT_EXCEEDED"],
  ] as const) {
    test(`bad input: Generate (${form}): ${what}: ${code}, no id is used up`, async () => {
      const appends = fixture.log.appends.length;
      await fails(code, generate(form, request));
      assert.equal(fixture.log.appends.length, appends);
    });
  }

  test(`bad input: Generate (${form}): unknown credentials: UNAUTHENTICATED`, async () => {
    await fails("UNAUTHENTICATED", generate(form, {}, "wrong"));
  });
}
