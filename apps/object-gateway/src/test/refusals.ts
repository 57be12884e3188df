// Requests that must be refused: exactly how, without a trace in rows or blobs, and with the server alive behind it.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ANN, BOB, TestGateway } from "./gateway.ts";
import { send, sendRaw, type Answer } from "./http-client.ts";
import { presign, sign, type Signed, type SigningOptions, type Unsigned } from "./signing.ts";

export const PART_BYTES_MAX = 6 * 1024 * 1024;

/** "403 AccessDenied"; a code of "" stands for an answer without a document. */
export interface Case {
  /** What a try writes and takes back has another version afterwards. */
  readonly moves?: boolean;
  readonly name: string;
  readonly expected: string;
  readonly make: () => Promise<Answer>;
}

export const bad = (name: string, expected: string, make: () => Promise<Answer>): Case => ({ name, expected, make });

type More = Omit<Partial<Unsigned>, "path"> & Partial<SigningOptions>;

/** Of ANN, to a gateway of the test file's own, which has /kept/k and /kept/large. */
export const requests = {
  get gateway(): TestGateway {
    return gateway!;
  },
  signed: (method: string, path: string, more: More = {}): Signed => sign({ ...more, method, path }, options(more)),
  presigned: (method: string, path: string, more: More & { expiresSeconds?: number | string } = {}): Signed =>
    presign({ ...more, method, path }, { ...options(more), ...more }),
  send: (signed: Signed): Promise<Answer> => send(gateway!.address, signed),
  call: (method: string, path: string, more: More = {}): Promise<Answer> => requests.send(requests.signed(method, path, more)),
  raw: (lines: readonly string[], body = ""): Promise<Answer> => sendRaw(gateway!.address, `${lines.join("\r\n")}\r\n\r\n${body}`),
  host: (): string => `Host: ${gateway!.address}`,
};

let gateway: TestGateway | undefined;

const options = (more: Partial<SigningOptions> = {}): SigningOptions => ({ key: ANN, host: gateway!.address, ...more });

/** Registers the tests of a file; `prepare` stores what its cases need beside. */
export function testRefusals(
  groups: Readonly<Record<string, readonly Case[]>>,
  prepare: () => Promise<void> = () => Promise.resolve(),
): void {
  before(async () => {
    gateway = await TestGateway.start({ config: { partBytesMax: PART_BYTES_MAX } });
    assert.equal((await requests.call("PUT", "/kept")).status, 200);
    await requests.call("PUT", "/kept/k", { body: "kept" });
    await requests.call("PUT", "/kept/large", { body: "x".repeat(100_000) });
    await prepare();
  });
  after(() => gateway?.remove());
  for (const [group, cases] of Object.entries(groups)) describe(`bad input: ${group}`, () => testGroup(cases));
}

function testGroup(cases: readonly Case[]): void {
  for (const { name, expected, make, moves } of cases) {
    test(`${name}: ${expected}, nothing changed`, async () => {
      const before = await gateway!.contents();
      const answer = await make();
      assert.equal(`${answer.status} ${answer.code}`.trim(), expected, answer.body);
      if (answer.code !== "") assert.equal(/<RequestId>([0-9A-F]{16})</.exec(answer.body)![1], answer.headers["x-amz-request-id"]);
      if (moves !== true) assert.deepEqual(await gateway!.contents(), before);
    });
  }
  test("the server is alive, and no secret is in its log", async () => {
    assert.equal((await requests.call("GET", "/kept/k")).body, "kept");
    const text = JSON.stringify(gateway!.lines);
    for (const key of [ANN, BOB]) assert.ok(!text.includes(key.secretAccessKey));
    assert.ok(!text.includes("X-Amz-Signature"));
  });
}
