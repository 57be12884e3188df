// Forms: how they are read, whatever the chunks they arrive in, what their policies cover, and who signed them.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, test } from "node:test";
import {
  checkedFile,
  checkForm,
  createVerifier,
  fieldsOf,
  parseTarget,
  readForm,
  readPostPolicy,
  S3Error,
  withFileName,
  withinBytes,
  type Form,
} from "./index.ts";
import { FORM_AFTER_BYTES_MAX, FORM_FIELDS_BYTES_MAX, FORM_FIELDS_MAX, POST_CONDITIONS_MAX } from "./limits.ts";
import { deriveSigningKey } from "./signature/signing-key.ts";

const TYPE = "multipart/form-data; boundary=xYx";
const part = (disposition: string, value: string, more = ""): string =>
  `--xYx\r\nContent-Disposition: form-data; ${disposition}\r\n${more}\r\n${value}\r\n`;
const field = (name: string, value: string): string => part(`name="${name}"`, value);
const file = (content: string, name = "a.txt"): string => part(`name="file"; filename="${name}"`, content, "Content-Type: text/plain\r\n");
const END = "--xYx--\r\n";

async function* chunked(text: string, bytes: number): AsyncGenerator<Uint8Array> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += bytes) yield all.subarray(at, at + bytes);
}

const read = (text: string, { bytes = 7, type = TYPE } = {}): Promise<Form> => readForm(chunked(text, bytes), type);

async function contentOf({ file: chunks }: Form): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(Uint8Array.from(chunk));
  return Buffer.concat(all).toString();
}

async function codeOf(action: () => unknown): Promise<string> {
  try {
    await action();
    return "none";
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error, String(thrown));
    return thrown.code;
  }
}

const whole = async (text: string, options = {}): Promise<string> => await contentOf(await read(text, options));

describe("form data", () => {
  test("fields, file name and file, in chunks of every size", async () => {
    const content = "one\r\n--xYother\r\n--xY\r\n\r\n-";
    const text = field("Key", "a/${filename}") + field("x-amz-meta-a", "") + file(content, "C:\\b/ä.txt") + field("submit", "Upload") + END;
    for (let bytes = 1; bytes < 200; bytes += 1) {
      const form = await read(text, { bytes });
      assert.deepEqual(form.fields.entries, [
        ["key", "a/${filename}"],
        ["x-amz-meta-a", ""],
      ]);
      assert.equal(form.fileName, "ä.txt");
      assert.equal(await contentOf(form), content);
    }
  });

  test("names: quoted, plain, escaped, in UTF-8 by RFC 5987; the end without a last line end", async () => {
    const nameOf = async (disposition: string): Promise<string> => (await read(part(disposition, "x") + END)).fileName;
    assert.equal(await nameOf('name="file"; filename="a%22b.txt"'), 'a"b.txt');
    assert.equal(await nameOf('name="file"; filename="a\\"b.txt"'), 'a"b.txt');
    assert.equal(await nameOf("name=file; filename=a.txt"), "a.txt");
    assert.equal(await nameOf('name="file"; filename="x"; filename*=utf-8\'\'%C3%A4.txt'), "ä.txt");
    assert.equal(await nameOf('filename="name=b"; name="file"'), "name=b");
    assert.equal(await nameOf('name="file"'), "");
    assert.equal(await whole(`${file("content")}--xYx--`), "content");
    assert.equal(await whole(file("") + END), "");
    assert.equal(await whole(file("content") + END, { type: 'multipart/form-data; charset=utf-8; boundary="xYx"' }), "content");
  });

  test("what is no form, has no end or no file, or says something twice is refused", async () => {
    const rows: readonly (readonly [text: string, expected: string, options?: object])[] = [
      [file("c") + END, "MalformedPOSTRequest", { type: "multipart/form-data" }],
      [file("c") + END, "MalformedPOSTRequest", { type: `multipart/form-data; boundary=${"b".repeat(71)}` }],
      [`preamble\r\n${file("c")}${END}`, "MalformedPOSTRequest"],
      ["", "IncompleteBody"],
      [field("key", "k"), "IncompleteBody"],
      [field("key", "k") + END, "InvalidArgument"],
      [field("key", "k") + field("KEY", "l") + file("c") + END, "InvalidArgument"],
      [`--xYxjunk\r\n${file("c")}`, "MalformedPOSTRequest"],
      [`--xYx\r\n\r\n\r\nvalue\r\n${file("c")}${END}`, "MalformedPOSTRequest"],
      [part('name=""', "v") + file("c") + END, "MalformedPOSTRequest"],
      [part('filename="a"', "v") + file("c") + END, "MalformedPOSTRequest"],
      [part('name="a"', "v", "Content-Transfer-Encoding: base64\r\n") + file("c") + END, "MalformedPOSTRequest"],
      [part('name="a"', "v", "X : y\r\n") + file("c") + END, "MalformedPOSTRequest"],
      [file("c").slice(0, -2), "IncompleteBody"],
      [file("c"), "IncompleteBody"],
      [`${file("c")}--xYx`, "IncompleteBody"],
      [file("c") + field("submit", "x"), "IncompleteBody"],
      [`${file("c")}--xYxjunk--xYx--`, "IncompleteBody"],
    ];
    for (const [text, expected, options] of rows) assert.equal(await codeOf(() => whole(text, options)), expected, text.slice(0, 100));
    const latin1 = Buffer.from(field("key", "\u00ff") + file("c") + END, "latin1");
    async function* bytes(): AsyncGenerator<Uint8Array> {
      yield latin1;
    }
    assert.equal(await codeOf(() => readForm(bytes(), TYPE)), "MalformedPOSTRequest");
  });

  test("limits: bytes of fields, their number, bytes after the file", async () => {
    const frame = Buffer.byteLength(field("a", "") + file("").slice(0, -2));
    const sized = (bytes: number): string => field("a", "v".repeat(bytes - frame)) + file("c") + END;
    for (const bytes of [1, 1000, 65_536]) {
      assert.equal(await whole(sized(FORM_FIELDS_BYTES_MAX - 2), { bytes }), "c", `in chunks of ${bytes}`);
      assert.equal(await codeOf(() => whole(sized(FORM_FIELDS_BYTES_MAX + 10), { bytes })), "MaxPostPreDataLengthExceeded");
    }
    const many = (count: number): string => Array.from({ length: count }, (_, at) => field(`f${at}`, "")).join("") + file("c") + END;
    assert.equal(await whole(many(FORM_FIELDS_MAX)), "c");
    assert.equal(await codeOf(() => whole(many(FORM_FIELDS_MAX + 1))), "MalformedPOSTRequest");
    const after = (bytes: number): string => file("c") + END + " ".repeat(bytes - 4);
    assert.equal(await whole(after(FORM_AFTER_BYTES_MAX)), "c");
    assert.equal(await codeOf(() => whole(after(FORM_AFTER_BYTES_MAX + 1))), "MalformedPOSTRequest");
  });

  test("a form that is refused, or not read to its end, cancels its source", async () => {
    let closed = 0;
    const source = (text: string): AsyncIterable<Uint8Array> => ({
      [Symbol.asyncIterator]: () => {
        const inner = chunked(text, 1000);
        return { next: () => inner.next(), return: async () => ({ done: true, value: (closed += 1) }) };
      },
    });
    assert.equal(await codeOf(() => readForm(source("nonsense\r\n--xYx"), TYPE)), "MalformedPOSTRequest");
    assert.equal(closed, 1);
    await (await readForm(source(file("c") + END), TYPE)).close();
    assert.equal(closed, 2);
  });
});

const NOW_MS = Date.UTC(2026, 10, 23, 12);
const base64 = (policy: unknown): string => Buffer.from(JSON.stringify(policy)).toString("base64");
const policyOf = (...conditions: readonly unknown[]): string => base64({ expiration: "2026-11-23T12:00:01.000Z", conditions });
const check = (policy: string, fields: Readonly<Record<string, string>>, nowMs = NOW_MS): object =>
  checkForm(readPostPolicy(policy), fieldsOf(Object.entries(fields)), nowMs);

describe("form policies", () => {
  const fields = { bucket: "b", key: "up/a.txt", "content-type": "image/png", policy: "p", "x-amz-signature": "s", "x-ignore-me": "i" };
  const most = [{ bucket: "b" }, ["starts-with", "$key", "up/"], ["eq", "$Content-Type", "image/png"]];

  test("every field but policy, signature and x-ignore-* is covered, and every condition holds", async () => {
    assert.deepEqual(check(policyOf(...most), fields), { minBytes: 0, maxBytes: Number.MAX_SAFE_INTEGER });
    assert.deepEqual(check(policyOf(...most, ["Content-Length-Range", 1, "10"], ["content-length-range", 0, 5]), fields), {
      minBytes: 1,
      maxBytes: 5,
    });
    const rows: readonly (readonly [conditions: readonly unknown[], more: Readonly<Record<string, string>>])[] = [
      [most.slice(1), {}],
      [most.slice(0, 2), {}],
      [[most[0], most[2]], {}],
      [most, { acl: "private" }],
      [most, { "x-amz-meta-a": "" }],
      [most, { "x-amz-date": "20261123T120000Z" }],
      [most, { bucket: "c" }],
      [most, { key: "down/a.txt" }],
      [most, { key: "UP/a.txt" }],
      [[...most, { acl: "private" }], {}],
      [[...most, ["starts-with", "$x-amz-meta-a", "a"]], {}],
    ];
    for (const [conditions, more] of rows)
      assert.equal(
        await codeOf(() => check(policyOf(...conditions), { ...fields, ...more })),
        "AccessDenied",
        JSON.stringify([conditions, more]),
      );
    assert.equal(await codeOf(() => check(policyOf(...most), fields, NOW_MS + 999)), "none");
    assert.equal(await codeOf(() => check(policyOf(...most), fields, NOW_MS + 1000)), "AccessDenied");
  });

  test("names and operators in any case; each of a list of content types", () => {
    const conditions = [{ bUcKeT: "b" }, ["StArTs-WiTh", "$KeY", ""], ["starts-with", "$content-TYPE", "image/"]];
    check(policyOf(...conditions), { bucket: "b", key: "k", "content-type": "image/png, image/gif" });
    assert.throws(() => check(policyOf(...conditions), { bucket: "b", key: "k", "content-type": "image/png, text/html" }), {
      code: "AccessDenied",
    });
  });

  test("documents that are not understood are refused", async () => {
    const expiration = "2026-11-23T12:00:01Z";
    const rows: readonly unknown[] = [
      [],
      {},
      { expiration },
      { conditions: [] },
      { expiration: "tomorrow", conditions: [] },
      { expiration: "2026-02-30T12:00:01Z", conditions: [] },
      { expiration, conditions: {} },
      { expiration, conditions: [], more: 1 },
      { EXPIRATION: expiration, conditions: [] },
      ...[{}, { acl: 1 }, "x", null, [], ["eq", "$key"], ["eq", "key", "a"], ["eq", "$key", 1], ["eq", "$key", "a", "b"]].map((one) => ({
        expiration,
        conditions: [one],
      })),
      ...[
        ["ends-with", "$key", "a"],
        ["content-length-range", 1],
        ["content-length-range", -1, 2],
        ["content-length-range", 1, 1.5],
      ].map((one) => ({ expiration, conditions: [one] })),
      { expiration, conditions: Array<object>(POST_CONDITIONS_MAX + 1).fill({ acl: "private" }) },
    ];
    for (const row of rows)
      assert.equal(await codeOf(() => readPostPolicy(base64(row))), "InvalidPolicyDocument", JSON.stringify(row).slice(0, 100));
    assert.equal(await codeOf(() => readPostPolicy("not base64!")), "InvalidPolicyDocument");
    const twice = Buffer.from(`{"expiration":"${expiration}","conditions":[{"acl":"a","acl":"b"}]}`).toString("base64");
    assert.equal(await codeOf(() => readPostPolicy(twice)), "InvalidPolicyDocument");
    const most_ = { expiration, conditions: Array<object>(POST_CONDITIONS_MAX).fill({ acl: "private" }) };
    assert.equal(readPostPolicy(base64(most_)).conditions.length, POST_CONDITIONS_MAX);
  });

  test("${filename} in any field but those of the signature; special replacements stay text", () => {
    assert.equal(withFileName("key", "u/${filename}/${filename}", "$&.txt"), "u/$&.txt/$&.txt");
    assert.equal(withFileName("policy", "${filename}", "a"), "${filename}");
    assert.equal(withFileName("x-amz-date", "${filename}", "a"), "${filename}");
  });

  test("length: below, at and above what the policy allows", async () => {
    const of = async (bytes: number): Promise<string> =>
      await codeOf(async () => {
        for await (const _ of withinBytes(chunked("x".repeat(bytes), 2), { minBytes: 3, maxBytes: 5 }));
      });
    assert.deepEqual(await Promise.all([2, 3, 5, 6].map(of)), ["EntityTooSmall", "none", "none", "EntityTooLarge"]);
  });

  test("digests that the fields announce are compared", async () => {
    const digest = async (...fields_: readonly (readonly [string, string])[]): Promise<string> =>
      await codeOf(async () => {
        const checked = checkedFile(chunked("abc", 2), fieldsOf(fields_));
        for await (const _ of checked.chunks);
        assert.equal(checked.finish().md5Hex, "900150983cd24fb0d6963f7d28e17f72");
      });
    assert.equal(await digest(), "none");
    assert.equal(await digest(["content-md5", "kAFQmDzST7DWlj99KOF/cg=="]), "none");
    assert.equal(await digest(["content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="]), "BadDigest");
    assert.equal(await digest(["x-amz-checksum-crc32", "NSRBwg=="]), "none");
    assert.equal(await digest(["x-amz-checksum-crc32", "AAAAAA=="]), "BadDigest");
  });
});

test("who signed a form: its policy as sent, with a known key of this region and day; nothing of it is anonymous", async () => {
  const verifier = createVerifier({
    region: "us-east-1",
    credential: (name) => (name === "AKID" ? { secret: "secret", tenant: "ann" } : undefined),
  });
  const policy = policyOf({ bucket: "b" });
  const signature = createHmac("sha256", deriveSigningKey("secret", "20261123", "us-east-1"))
    .update(policy)
    .digest("hex");
  const right = {
    policy,
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": "AKID/20261123/us-east-1/s3/aws4_request",
    "x-amz-date": "20261123T000000Z",
    "x-amz-signature": signature,
  };
  const verify = (fields: Readonly<Record<string, string>>, headers: readonly (readonly [string, string])[] = [], target = "/b"): unknown =>
    verifier.verifyForm(fieldsOf(headers), parseTarget(target, "host"), fieldsOf(Object.entries(fields)), NOW_MS);
  assert.deepEqual(verify(right), { tenant: "ann", policy });
  assert.equal(verify({ key: "k" }), undefined);
  const rows: readonly (readonly [fields: Readonly<Record<string, string>>, expected: string])[] = [
    [{ ...right, policy: policyOf({ bucket: "c" }) }, "SignatureDoesNotMatch"],
    [{ ...right, "x-amz-signature": signature.replace(/^./, (one) => (one === "0" ? "1" : "0")) }, "SignatureDoesNotMatch"],
    [{ ...right, "x-amz-signature": "short" }, "SignatureDoesNotMatch"],
    [{ ...right, "x-amz-credential": "OTHER/20261123/us-east-1/s3/aws4_request" }, "InvalidAccessKeyId"],
    [{ ...right, "x-amz-credential": "AKID/20261123/eu-west-1/s3/aws4_request" }, "InvalidArgument"],
    [{ ...right, "x-amz-credential": "AKID/20261122/us-east-1/s3/aws4_request" }, "InvalidArgument"],
    [{ ...right, "x-amz-credential": "AKID" }, "InvalidArgument"],
    [{ ...right, "x-amz-algorithm": "AWS4-HMAC-SHA1" }, "InvalidArgument"],
    [{ ...right, "x-amz-date": "today" }, "InvalidArgument"],
    [{ ...right, "x-amz-credential": "AKID/20261124/us-east-1/s3/aws4_request", "x-amz-date": "20261124T000000Z" }, "AccessDenied"],
    [{ policy }, "InvalidArgument"],
    [{ "x-amz-signature": signature }, "InvalidArgument"],
    [{ ...right, policy: "" }, "InvalidArgument"],
    [{ ...right, "x-amz-security-token": "t" }, "InvalidToken"],
    [{ policy, awsaccesskeyid: "AKID", signature: "c2ln" }, "InvalidRequest"],
  ];
  for (const [fields, expected] of rows) assert.equal(await codeOf(() => verify(fields)), expected, JSON.stringify(fields));
  assert.equal(await codeOf(() => verify(right, [["authorization", "AWS4-HMAC-SHA256 x"]])), "InvalidArgument");
  assert.equal(await codeOf(() => verify({}, [], "/b?X-Amz-Signature=1")), "InvalidArgument");
});
