// What the store of blobs relies on, of a real pool and of the tests' one.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { RadosPool, WriteStep } from "../pool.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const setKey = (key: string, value: string): WriteStep => ({ kind: "set-key", key, value: bytes(value) });
const expectKey = (key: string, value: string): WriteStep => ({ kind: "expect-key", key, value: bytes(value) });
const setAttribute = (name: string, value: string): WriteStep => ({ kind: "set-attribute", name, value: bytes(value) });
const expectAttribute = (name: string, value: string): WriteStep => ({ kind: "expect-attribute", name, value: bytes(value) });
const write = (at: number, text: string): WriteStep => ({ kind: "write", at, bytes: bytes(text) });

const text = (found: Uint8Array | undefined): string | undefined => (found === undefined ? undefined : Buffer.from(found).toString());

const CASES: Readonly<Record<string, (pool: RadosPool, object: string) => Promise<void>>> = {
  "no object: nothing to read": async (pool, object) => {
    assert.equal(await pool.read(object, 0, 10), undefined);
    assert.deepEqual(await pool.keys(object, "", 10), { entries: [], more: false });
    assert.equal(await pool.key(object, "k"), undefined);
  },
  "no object: an expectation fails, and makes none": async (pool, object) => {
    assert.equal(await pool.write(object, [expectKey("k", ""), setKey("k", "v")]), "absent");
    assert.equal(await pool.write(object, [expectAttribute("a", "x"), setKey("k", "v")]), "absent");
    assert.equal(await pool.write(object, [{ kind: "remove" }]), "absent");
    assert.equal(await pool.read(object, 0, 1), undefined);
  },
  "create: once; the second leaves everything as it is": async (pool, object) => {
    assert.equal(await pool.write(object, [{ kind: "create" }, setAttribute("a", "1")]), "done");
    assert.equal(await pool.write(object, [{ kind: "create" }, setAttribute("a", "2")]), "exists");
    assert.equal(text((await pool.read(object, 0, 0))?.attributes.get("a")), "1");
  },
  "create: ten at once: one is done": async (pool, object) => {
    const answers = await Promise.all(Array.from({ length: 10 }, () => pool.write(object, [{ kind: "create" }])));
    assert.equal(answers.filter((answer) => answer === "done").length, 1);
    assert.equal(answers.filter((answer) => answer === "exists").length, 9);
  },
  "expect-key: absent is the empty value; any other value is compared": async (pool, object) => {
    await pool.write(object, [{ kind: "create" }]);
    assert.equal(await pool.write(object, [expectKey("k", ""), setKey("k", "one")]), "done");
    assert.equal(await pool.write(object, [expectKey("k", ""), setKey("k", "two")]), "mismatch");
    assert.equal(await pool.write(object, [expectKey("k", "on"), setKey("k", "two")]), "mismatch");
    assert.equal(await pool.write(object, [expectKey("k", "one"), setKey("k", "two")]), "done");
    assert.equal(text(await pool.key(object, "k")), "two");
  },
  "expect-key: ten exchange one value: one does": async (pool, object) => {
    await pool.write(object, [{ kind: "create" }]);
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, at) => pool.write(object, [expectKey("k", ""), setKey("k", `${at}`)])),
    );
    assert.equal(answers.filter((answer) => answer === "done").length, 1);
  },
  "expect-attribute: absent or another one: mismatch, and no step is done": async (pool, object) => {
    await pool.write(object, [{ kind: "create" }, setAttribute("state", "open")]);
    assert.equal(await pool.write(object, [setKey("k", "v"), expectAttribute("state", "closed")]), "mismatch");
    assert.equal(await pool.write(object, [expectAttribute("other", "open"), setKey("k", "v")]), "mismatch");
    assert.equal(await pool.key(object, "k"), undefined);
    assert.equal(await pool.write(object, [expectAttribute("state", "open"), setKey("k", "v")]), "done");
  },
  "keys: in order of their bytes, behind a key, in pages": async (pool, object) => {
    const keys = ["00", "0a", "9", "a", "ff", "\u00e4"];
    for (const key of keys.toReversed()) await pool.write(object, [setKey(key, `value of ${key}`)]);
    const seen: string[] = [];
    for (let after = "", more = true; more;) {
      const page = await pool.keys(object, after, 2);
      assert.ok(page.entries.length <= 2);
      seen.push(...page.entries.map(([key]) => key));
      for (const [key, value] of page.entries) assert.equal(text(value), `value of ${key}`);
      ({ more } = page);
      after = seen.at(-1)!;
    }
    assert.deepEqual(seen, keys);
  },
  "keys: removed: gone, others stay; values have any bytes, and none": async (pool, object) => {
    await pool.write(object, [setKey("a", ""), setKey("b", "x\0\u{1f600}")]);
    assert.equal(text(await pool.key(object, "a")), "");
    assert.equal(text(await pool.key(object, "b")), "x\0\u{1f600}");
    assert.equal(await pool.write(object, [{ kind: "remove-key", key: "a" }]), "done");
    assert.equal(await pool.key(object, "a"), undefined);
    assert.equal(text(await pool.key(object, "b")), "x\0\u{1f600}");
  },
  "write: at places; zeros between; reads end where the object does": async (pool, object) => {
    await pool.write(object, [write(4, "abcd")]);
    await pool.write(object, [write(6, "XYZ")]);
    const found = await pool.read(object, 2, 100);
    assert.deepEqual([...found!.bytes], [0, 0, ...bytes("abXYZ")]);
    assert.equal((await pool.read(object, 50, 10))!.bytes.length, 0);
  },
  "write: the caller changes its bytes after the call: the object does not": async (pool, object) => {
    const own = bytes("first");
    const writing = pool.write(object, [{ kind: "write", at: 0, bytes: own }]);
    own.fill(0);
    await writing;
    assert.equal(text((await pool.read(object, 0, 10))?.bytes), "first");
  },
  "write: many at once, not awaited: in the order of the calls": async (pool, object) => {
    const answers = Array.from({ length: 80 }, (_, at) =>
      pool.write(object, at === 0 ? [{ kind: "create" }, setKey("k", "0")] : [expectKey("k", `${at - 1}`), setKey("k", `${at}`)]),
    );
    assert.deepEqual([...new Set(await Promise.all(answers))], ["done"]);
  },
  "ensure and empty: of none and of one: without bytes, attributes set": async (pool, object) => {
    const burn: readonly WriteStep[] = [{ kind: "ensure" }, { kind: "empty" }, setAttribute("owner", "burnt")];
    assert.equal(await pool.write(object, burn), "done");
    assert.equal(await pool.write(object, [{ kind: "create" }]), "exists");
    await pool.write(object, [write(0, "bytes"), setAttribute("owner", "writer")]);
    assert.equal(await pool.write(object, burn), "done");
    const found = await pool.read(object, 0, 10);
    assert.deepEqual([found?.bytes.length, text(found?.attributes.get("owner"))], [0, "burnt"]);
  },
  "remove: bytes, keys and attributes are gone; it can be created": async (pool, object) => {
    await pool.write(object, [write(0, "bytes"), setKey("k", "v"), setAttribute("a", "x")]);
    assert.equal(await pool.write(object, [{ kind: "remove" }]), "done");
    assert.equal(await pool.read(object, 0, 1), undefined);
    assert.equal(await pool.write(object, [{ kind: "create" }]), "done");
    assert.equal(await pool.key(object, "k"), undefined);
  },
  "1 MiB: read back, and a range of it": async (pool, object) => {
    const whole = randomBytes(1024 * 1024);
    await pool.write(object, [{ kind: "write", at: 0, bytes: whole }]);
    assert.equal(Buffer.compare((await pool.read(object, 0, whole.length))!.bytes, whole), 0);
    assert.equal(Buffer.compare((await pool.read(object, 300_001, 70_000))!.bytes, whole.subarray(300_001, 370_001)), 0);
  },
};

export function poolSuite(test: (name: string, run: () => Promise<void>) => unknown, open: () => Promise<RadosPool>): void {
  for (const [name, run] of Object.entries(CASES))
    test(`pool: ${name}`, async () => run(await open(), `test-${randomBytes(6).toString("hex")}`));
}
