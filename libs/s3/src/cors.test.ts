// Rules of cross-origin requests: what is read, and what each request gets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { corsHeaders, corsXml, fieldsOf, readAskedHeaders, readCorsRules, S3Error, type CorsRule } from "./index.ts";
import { CORS_BYTES_MAX, CORS_ENTRIES_MAX, CORS_HEADERS_ASKED_MAX, CORS_ID_CHARS_MAX, CORS_RULES_MAX } from "./limits.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const document = (...rules: readonly string[]): Uint8Array =>
  bytes(`<CORSConfiguration>${rules.map((rule) => `<CORSRule>${rule}</CORSRule>`).join("")}</CORSConfiguration>`);
const GET_ALL = "<AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>";

const codeOf = (document_: Uint8Array): string => {
  try {
    readCorsRules(document_);
    return "read";
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error, String(thrown));
    return thrown.code;
  }
};

const rule = (more: Partial<CorsRule>): CorsRule => ({
  id: undefined,
  origins: ["https://a.example"],
  methods: ["GET"],
  headers: [],
  exposed: [],
  maxAgeSeconds: undefined,
  ...more,
});
const answered = (rules: readonly CorsRule[], origin: string, method = "GET", headers: readonly string[] = []): object | undefined => {
  const found = corsHeaders(rules, { origin, method, headers });
  return found === undefined ? undefined : Object.fromEntries(found);
};

test("rules: read, written, read again", () => {
  const text =
    "<ID>one</ID><AllowedHeader>X-Amz-*</AllowedHeader><AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod>" +
    "<AllowedOrigin>https://*.example</AllowedOrigin><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>300</MaxAgeSeconds>";
  const rules = readCorsRules(document(text, GET_ALL));
  assert.deepEqual(rules[0], {
    id: "one",
    origins: ["https://*.example"],
    methods: ["PUT", "GET"],
    headers: ["x-amz-*"],
    exposed: ["ETag"],
    maxAgeSeconds: 300,
  });
  assert.deepEqual(readCorsRules(bytes(corsXml(rules))), rules);
});

test("rules: what is not known, missing, there twice or too much is refused", () => {
  const more = (text: string): Uint8Array => document(GET_ALL + text);
  const many = (count: number, text: string): string => text.repeat(count);
  const rows: readonly (readonly [document: Uint8Array, expected: string])[] = [
    [document(), "MalformedXML"],
    [document("<AllowedOrigin>*</AllowedOrigin>"), "MalformedXML"],
    [document("<AllowedMethod>GET</AllowedMethod>"), "MalformedXML"],
    [more("<Nonsense/>"), "MalformedXML"],
    [more("<ID>a</ID><ID>b</ID>"), "MalformedXML"],
    [more("<MaxAgeSeconds>-1</MaxAgeSeconds>"), "MalformedXML"],
    [more(`<ID>${"i".repeat(CORS_ID_CHARS_MAX)}</ID>`), "read"],
    [more(`<ID>${"i".repeat(CORS_ID_CHARS_MAX + 1)}</ID>`), "MalformedXML"],
    [document(...Array<string>(CORS_RULES_MAX).fill(GET_ALL)), "read"],
    [document(...Array<string>(CORS_RULES_MAX + 1).fill(GET_ALL)), "MalformedXML"],
    [more(many(CORS_ENTRIES_MAX, "<AllowedHeader>a</AllowedHeader>")), "read"],
    [more(many(CORS_ENTRIES_MAX + 1, "<AllowedHeader>a</AllowedHeader>")), "MalformedXML"],
    [bytes(`<CORSConfiguration>${" ".repeat(CORS_BYTES_MAX)}</CORSConfiguration>`), "MalformedXML"],
    [more("<AllowedMethod>PATCH</AllowedMethod>"), "InvalidRequest"],
    [more("<AllowedMethod>get</AllowedMethod>"), "InvalidRequest"],
    [more("<AllowedOrigin>https://*.*</AllowedOrigin>"), "InvalidRequest"],
    [more("<AllowedOrigin>a b</AllowedOrigin>"), "InvalidRequest"],
    [more("<AllowedOrigin/>"), "InvalidRequest"],
    [more("<AllowedHeader>x-*-*</AllowedHeader>"), "InvalidRequest"],
    [more("<AllowedHeader>a&#xd;b</AllowedHeader>"), "InvalidRequest"],
    [more("<ExposeHeader>*</ExposeHeader>"), "InvalidRequest"],
    [more("<ExposeHeader>a&#xa;set-cookie: b</ExposeHeader>"), "InvalidRequest"],
  ];
  for (const [sent, expected] of rows) assert.equal(codeOf(sent), expected, Buffer.from(sent).toString().slice(0, 200));
});

test("answers: the first rule whose origin, method and headers fit", () => {
  const first = rule({ methods: ["PUT"], headers: ["x-amz-*", "content-type"], exposed: ["ETag"], maxAgeSeconds: 60 });
  const rules = [first, rule({ origins: ["*"], methods: ["GET", "HEAD"] })];
  assert.deepEqual(answered(rules, "https://a.example", "PUT", ["x-amz-meta-a", "content-type"]), {
    "access-control-allow-origin": "https://a.example",
    "access-control-allow-credentials": "true",
    "access-control-allow-methods": "PUT",
    "access-control-allow-headers": "x-amz-meta-a, content-type",
    "access-control-expose-headers": "ETag",
    "access-control-max-age": "60",
  });
  assert.equal(answered(rules, "https://a.example", "PUT", ["authorization"]), undefined);
  assert.equal(answered(rules, "https://b.example", "PUT"), undefined);
  assert.equal(answered(rules, "https://a.example", "DELETE"), undefined);
});

test("answers: an origin allowed by a star alone is never allowed credentials", () => {
  const rules = [rule({ origins: ["*"] })];
  for (const origin of ["https://a.example", "null", "*"])
    assert.deepEqual(answered(rules, origin), { "access-control-allow-origin": "*", "access-control-allow-methods": "GET" });
});

test("origins: case and ports count, a star is any text, overlapping ends are no match", () => {
  const matches = (pattern: string, origin: string): boolean => answered([rule({ origins: [pattern] })], origin) !== undefined;
  assert.equal(matches("https://a.example", "https://A.example"), false);
  assert.equal(matches("https://a.example", "https://a.example:8443"), false);
  assert.equal(matches("https://*.example", "https://b.c.example"), true);
  assert.equal(matches("https://*.example", "https://.example"), true);
  assert.equal(matches("https://*.example", "https://x.example.evil"), false);
  assert.equal(matches("aba*aba", "aba"), false);
  assert.equal(matches("null", "null"), true);
});

test("asked headers: names in lower case; what is no name, or too many, is none", () => {
  const read = (text: string | undefined): readonly string[] | undefined =>
    readAskedHeaders(fieldsOf(text === undefined ? [] : [["h", text]]).one("h"));
  assert.deepEqual(read(undefined), []);
  assert.deepEqual(read(" X-Amz-Date ,Content-Type,"), ["x-amz-date", "content-type"]);
  assert.equal(read("a b"), undefined);
  assert.equal(read("a\u00e4"), undefined);
  assert.equal(read(Array(CORS_HEADERS_ASKED_MAX).fill("a").join(","))?.length, CORS_HEADERS_ASKED_MAX);
  assert.equal(
    read(
      Array(CORS_HEADERS_ASKED_MAX + 1)
        .fill("a")
        .join(","),
    ),
    undefined,
  );
});
