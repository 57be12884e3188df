// What must be refused: exactly how, without a trace in rows or blobs, and with the server alive behind it. Signatures: bad-signatures.test.ts.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { rawOf, send, sendRaw, type Answer } from "./test/http-client.ts";
import { ANN, BOB } from "./test/gateway.ts";
import { bad, PART_BYTES_MAX, requests, testRefusals, type Case } from "./test/refusals.ts";

const { call, signed, raw, host } = requests;
const md5Of = (body: string | Uint8Array): string => createHash("md5").update(body).digest("base64");
const md5HexOf = (body: string): string => createHash("md5").update(body).digest("hex");
/** Of ANN's open upload for the key "u" of "kept", which has part 1; and of one that was aborted. */
let upload = "";
let aborted = "";
let foreign = "";

async function uploadOf(path: string, key = ANN): Promise<string> {
  const answer = await call("POST", path, { key, query: [["uploads", ""]] });
  return /<UploadId>([^<]+)</.exec(answer.body)![1]!;
}

async function prepare(): Promise<void> {
  assert.equal((await call("PUT", "/bobs", { key: BOB })).status, 200);
  assert.equal((await call("PUT", "/empty")).status, 200);
  await call("PUT", "/bobs/k", { key: BOB, body: "of bob" });
  upload = await uploadOf("/kept/u");
  await call("PUT", "/kept/u", {
    query: [
      ["partNumber", "1"],
      ["uploadId", upload],
    ],
    body: "part",
  });
  await call("PUT", "/kept/u", {
    query: [
      ["partNumber", "2"],
      ["uploadId", upload],
    ],
    body: "part",
  });
  aborted = await uploadOf("/kept/aborted");
  await call("DELETE", "/kept/aborted", { query: [["uploadId", aborted]] });
  foreign = await uploadOf("/bobs/u", BOB);
}

const HTTP: readonly Case[] = [
  bad("Content-Length and Transfer-Encoding", "400", () =>
    raw(["PUT /kept/x HTTP/1.1", host(), "Content-Length: 1", "Transfer-Encoding: chunked"], "1\r\nx\r\n0\r\n\r\n"),
  ),
  bad("two lengths", "400", () => raw(["PUT /kept/x HTTP/1.1", host(), "Content-Length: 1", "Content-Length: 2"], "xy")),
  bad("a negative length", "400", () => raw(["PUT /kept/x HTTP/1.1", host(), "Content-Length: -1"])),
  bad("two hosts", "400", () => raw(["GET / HTTP/1.1", host(), "Host: other"])),
  bad("no host", "400", () => raw(["GET / HTTP/1.1"])),
  bad("a folded header", "400", () => raw(["GET / HTTP/1.1", host(), "X-A: 1", " 2"])),
  bad("NUL in a header", "400", () => raw(["GET / HTTP/1.1", host(), "X-A: \0"])),
  bad("a space before the colon", "400", () => raw(["GET / HTTP/1.1", host(), "X-A : 1"])),
  bad("another coding of the body", "501", () => raw(["PUT /kept/x HTTP/1.1", host(), "Transfer-Encoding: gzip"])),
  bad("a megabyte of header", "431", () => raw(["GET / HTTP/1.1", host(), `X-A: ${"a".repeat(1_000_000)}`])),
  bad("ten thousand headers", "431", () => raw(["GET / HTTP/1.1", host(), ...Array.from({ length: 10_000 }, (_, at) => `X-${at}: 1`)])),
  bad("300 short headers", "431", () => raw(["GET / HTTP/1.1", host(), ...Array.from({ length: 300 }, (_, at) => `X-${at}: 1`)])),
  bad("an unknown method", "400", () => raw(["FROB / HTTP/1.1", host()])),
  bad("no HTTP at all", "400", () => sendRaw(requests.gateway.address, "\x16\x03\x01\x02\x00\x01\r\n\r\n")),
  bad("an absolute target", "400 InvalidURI", () => raw([`GET http://${requests.gateway.address}/kept HTTP/1.1`, host()])),
  bad("the target *", "400 InvalidURI", () => raw(["OPTIONS * HTTP/1.1", host()])),
  bad("PATCH", "405 MethodNotAllowed", () => call("PATCH", "/kept/k")),
  bad("a put without a length", "411 MissingContentLength", () => sendRaw(requests.gateway.address, rawOf(signed("PUT", "/kept/x")))),
  bad("a put in HTTP chunks", "411 MissingContentLength", () =>
    send(requests.gateway.address, signed("PUT", "/kept/x", { body: "abc", headers: { "transfer-encoding": "chunked" } })),
  ),
  bad("a body with a GET", "400 InvalidRequest", () => call("GET", "/kept/k", { body: "abc", headers: { "content-length": "3" } })),
  bad("a target that is too long", "400 InvalidURI", () => call("GET", `/kept/${"a".repeat(17_000)}`)),
];

const KEYS: readonly Case[] = [
  ...["ab", "a".repeat(64), "Upper", "a..b", "192.168.1.1", "-ab", "ab-", "a_b", "a b", "ü-bucket", "xn--a"].map((name) =>
    bad(`bucket ${JSON.stringify(name.slice(0, 12))} of ${name.length}`, "400 InvalidBucketName", () => call("PUT", `/${name}`)),
  ),
  bad("a bucket that is not there", "404 NoSuchBucket", () => call("GET", "/absent/k")),
  bad("a key that is not there", "404 NoSuchKey", () => call("GET", "/kept/none")),
  bad("HEAD of a key that is not there", "404", () => call("HEAD", "/kept/none")),
  bad("a key of 1025 bytes", "400 KeyTooLongError", () => call("PUT", `/kept/${"k".repeat(1025)}`, { body: "x" })),
  bad("a key of 513 letters of two bytes", "400 KeyTooLongError", () => call("PUT", `/kept/${"ü".repeat(513)}`, { body: "x" })),
  bad("a key that is not UTF-8", "400 InvalidURI", () => call("PUT", "", { rawPath: "/kept/%ff", body: "x" })),
  bad("a broken escape", "400 InvalidURI", () => call("PUT", "", { rawPath: "/kept/%zz", body: "x" })),
  bad("an empty bucket", "400 InvalidURI", () => call("GET", "", { rawPath: "//kept/k" })),
  { ...bad("a bucket that has objects: removed", "409 BucketNotEmpty", () => call("DELETE", "/kept")), moves: true },
  bad("another location", "400 IllegalLocationConstraintException", () =>
    call("PUT", "/elsewhere", {
      body: "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>",
    }),
  ),
  ...[
    ["lifecycle", "NoSuchLifecycleConfiguration"],
    ["encryption", "ServerSideEncryptionConfigurationNotFoundError"],
    ["website", "NoSuchWebsiteConfiguration"],
    ["object-lock", "ObjectLockConfigurationNotFoundError"],
    ["replication", "ReplicationConfigurationNotFoundError"],
  ].map(([name, code]) => bad(`GET bucket?${name}`, `404 ${code}`, () => call("GET", "/kept", { query: [[name!, ""]] }))),
  ...["lifecycle", "notification"].map((name) =>
    bad(`GET ?${name} of no bucket`, "404 NoSuchBucket", () => call("GET", "/absent", { query: [[name, ""]] })),
  ),
  ...["analytics", "inventory", "metrics"].map((name) =>
    bad(`GET bucket?${name}`, "501 NotImplemented", () => call("GET", "/kept", { query: [[name, ""]] })),
  ),
  ...["replication", "logging", "accelerate", "requestPayment"].map((name) =>
    bad(`PUT bucket?${name}`, "501 NotImplemented", () => call("PUT", "/kept", { query: [[name, ""]], body: "<x/>" })),
  ),
  ...["md5", "sha512", "xxhash3", "xxhash64", "xxhash128"].map((name) =>
    bad(`a checksum that is not compared here: ${name}`, "501 NotImplemented", () =>
      call("PUT", "/kept/x", { body: "x", headers: { [`x-amz-checksum-${name}`]: "AAAAAAAAAAA=" } }),
    ),
  ),
  bad("a condition on the source of a copy that is none", "501 NotImplemented", () =>
    call("PUT", "/kept/x", { headers: { "x-amz-copy-source": "/kept/k", "x-amz-copy-source-if-later": "x" } }),
  ),
  bad("GET object?torrent", "501 NotImplemented", () => call("GET", "/kept/k", { query: [["torrent", ""]] })),
  bad("PUT bucket?object-lock of what is none", "400 MalformedXML", () =>
    call("PUT", "/kept", { query: [["object-lock", ""]], body: "<x/>" }),
  ),
  ...["retention", "legal-hold"].flatMap((name) => [
    bad(`GET object?${name} in a bucket without locks`, "400 InvalidRequest", () => call("GET", "/kept/k", { query: [[name, ""]] })),
    bad(`PUT object?${name} of what is none`, "400 MalformedXML", () => call("PUT", "/kept/k", { query: [[name, ""]], body: "<x/>" })),
  ]),
  ...["append", "renameObject"].map((name) =>
    bad(`PUT object?${name}`, "501 NotImplemented", () => call("PUT", "/kept/k", { query: [[name, ""]], body: "<x/>" })),
  ),
  ...["restore", "select"].map((name) =>
    bad(`POST object?${name}`, "501 NotImplemented", () => call("POST", "/kept/k", { query: [[name, ""]], body: "<x/>" })),
  ),
  ...["GET", "HEAD", "DELETE"].map((method) =>
    bad(`${method} of a version id that is none`, method === "HEAD" ? "400" : "400 InvalidArgument", () =>
      call(method, "/kept/k", { query: [["versionId", "abc"]] }),
    ),
  ),
  ...["GET", "HEAD"].map((method) =>
    bad(`${method} of a version that is not there`, method === "HEAD" ? "404" : "404 NoSuchVersion", () =>
      call(method, "/kept/k", { query: [["versionId", "0".repeat(32)]] }),
    ),
  ),
  ...[
    ["<x/>", "400 MalformedXML"],
    ["<VersioningConfiguration><Status>Off</Status></VersioningConfiguration>", "400 IllegalVersioningConfigurationException"],
    ["<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>", "501 NotImplemented"],
  ].map(([body, refusal]) =>
    bad(`versioning: ${body}`, refusal!, () => call("PUT", "/kept", { query: [["versioning", ""]], body: body! })),
  ),
  bad("tags of a version that is not there", "404 NoSuchVersion", () =>
    call("PUT", "/kept/k", {
      query: [
        ["tagging", ""],
        ["versionId", "0".repeat(32)],
      ],
      body: tagSet(),
    }),
  ),
  bad("a copy of a version that is not there", "404 NoSuchVersion", () =>
    call("PUT", "/kept/copy", { headers: { "x-amz-copy-source": `kept/k?versionId=${"0".repeat(32)}` } }),
  ),
  bad("a version marker without a key marker", "400 InvalidArgument", () =>
    call("GET", "/kept", {
      query: [
        ["versions", ""],
        ["version-id-marker", "null"],
      ],
    }),
  ),
  bad("versioning of another's bucket", "403 AccessDenied", () =>
    call("PUT", "/kept", {
      key: BOB,
      query: [["versioning", ""]],
      body: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    }),
  ),
  bad("no form", "400 InvalidArgument", () =>
    call("POST", "/kept", { body: "--x--", headers: { "content-type": "multipart/form-data; boundary=x" } }),
  ),
  bad("POST to the service", "405 MethodNotAllowed", () => call("POST", "/", { body: "" })),
  ...(
    [
      ["x-amz-server-side-encryption", "AES256"],
      ["x-amz-server-side-encryption", "aws:kms"],
      ["x-amz-storage-class", "GLACIER"],
      ["x-amz-write-offset-bytes", "4"],
      ["x-amz-checksum-what-comes-next", "1"],
    ] as const
  ).map(([name, value]) =>
    bad(`PUT with ${name}`, "501 NotImplemented", () => call("PUT", "/kept/k", { body: "new", headers: { [name]: value } })),
  ),
  bad("PUT with a mode and no date", "400 InvalidArgument", () =>
    call("PUT", "/kept/k", { body: "new", headers: { "x-amz-object-lock-mode": "COMPLIANCE" } }),
  ),
  bad("PUT with a legal hold in a bucket without locks", "400 InvalidRequest", () =>
    call("PUT", "/kept/k", { body: "new", headers: { "x-amz-object-lock-legal-hold": "ON" } }),
  ),
  bad("PUT bucket with a lock that is neither on nor off", "400 InvalidArgument", () =>
    call("PUT", "/locked", { headers: { "x-amz-bucket-object-lock-enabled": "maybe" } }),
  ),
  bad("DELETE with a bypass that is neither on nor off", "400 InvalidArgument", () =>
    call("DELETE", "/kept/k", { headers: { "x-amz-bypass-governance-retention": "maybe" } }),
  ),
  bad("PUT with encryption of a later reference", "400 InvalidArgument", () =>
    call("PUT", "/kept/k", { body: "new", headers: { "x-amz-server-side-encryption-what-comes-next": "1" } }),
  ),
  bad("DELETE with If-None-Match", "501 NotImplemented", () => call("DELETE", "/kept/k", { headers: { "if-none-match": '"x"' } })),
  bad("DELETE of another ETag", "412 PreconditionFailed", () => call("DELETE", "/kept/k", { headers: { "if-match": '"x"' } })),
  bad("DELETE of nothing with If-Match", "404 NoSuchKey", () => call("DELETE", "/kept/nothing", { headers: { "if-match": "*" } })),
  bad("DELETE of another size", "412 PreconditionFailed", () => call("DELETE", "/kept/k", { headers: { "x-amz-if-match-size": "5" } })),
  bad("DELETE of another time", "412 PreconditionFailed", () =>
    call("DELETE", "/kept/k", { headers: { "x-amz-if-match-last-modified-time": "Wed, 21 Oct 2015 07:28:00 GMT" } }),
  ),
  bad("DELETE with a size that is none", "400 InvalidArgument", () =>
    call("DELETE", "/kept/k", { headers: { "x-amz-if-match-size": "4.0" } }),
  ),
  bad("DELETE with a time that is none", "400 InvalidArgument", () =>
    call("DELETE", "/kept/k", { headers: { "x-amz-if-match-last-modified-time": "yesterday" } }),
  ),
  bad("PUT with a condition of deletes", "501 NotImplemented", () =>
    call("PUT", "/kept/k", { body: "x", headers: { "x-amz-if-match-size": "4" } }),
  ),
  bad("metadata that is too large", "400 MetadataTooLarge", () =>
    call("PUT", "/kept/k", { body: "new", headers: { "x-amz-meta-a": "m".repeat(2048) } }),
  ),
  bad("a range behind the end", "416 InvalidRange", () => call("GET", "/kept/k", { headers: { range: "bytes=4-" } })),
  bad("If-None-Match: * on what is there", "412 PreconditionFailed", () =>
    call("PUT", "/kept/k", { body: "new", headers: { "if-none-match": "*" } }),
  ),
];

const remove = (body: string): Promise<Answer> =>
  call("POST", "/kept", { query: [["delete", ""]], body, headers: { "content-md5": md5Of(body) } });
const tagging = (body: string): Promise<Answer> => call("PUT", "/kept/k", { query: [["tagging", ""]], body });
const tag = (key: string, value = "v"): string => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`;
const tagSet = (...tags: string[]): string => `<Tagging><TagSet>${tags.join("")}</TagSet></Tagging>`;

const XML: readonly Case[] = [
  bad("no document", "400 MissingRequestBodyError", () => remove("")),
  bad("no XML", "400 MalformedXML", () => remove("{}")),
  bad("DOCTYPE", "400 MalformedXML", () => remove("<!DOCTYPE d [<!ENTITY a 'b'>]><Delete><Object><Key>k</Key></Object></Delete>")),
  bad("an external entity", "400 MalformedXML", () =>
    remove("<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><Delete><Object><Key>&a;</Key></Object></Delete>"),
  ),
  bad("an unknown entity", "400 MalformedXML", () => remove("<Delete><Object><Key>&a;</Key></Object></Delete>")),
  bad("a processing instruction", "400 MalformedXML", () => remove("<?x y?><Delete><Object><Key>k</Key></Object></Delete>")),
  bad("CDATA that does not end", "400 MalformedXML", () => remove("<Delete><Object><Key><![CDATA[k</Key></Object></Delete>")),
  bad("depth of 100 000", "400 MalformedXML", () => remove("<Delete>".repeat(100_000))),
  bad("an element that is not closed", "400 MalformedXML", () => remove("<Delete><Object><Key>k</Key></Object>")),
  bad("something behind the root", "400 MalformedXML", () => remove("<Delete><Object><Key>k</Key></Object></Delete><x/>")),
  bad("another root", "400 MalformedXML", () => remove("<Remove><Object><Key>k</Key></Object></Remove>")),
  bad("an unknown element", "400 MalformedXML", () => remove("<Delete><Object><Key>k</Key><Sure/></Object></Delete>")),
  bad("UTF-16", "400 MalformedXML", () =>
    call("POST", "/kept", {
      query: [["delete", ""]],
      body: Buffer.from("<Delete/>", "utf16le"),
      headers: { "content-md5": md5Of(Buffer.from("<Delete/>", "utf16le")) },
    }),
  ),
  bad("no key", "400 MalformedXML", () => remove("<Delete></Delete>")),
  bad("1001 keys", "400 MalformedXML", () => remove(`<Delete>${"<Object><Key>k</Key></Object>".repeat(1001)}</Delete>`)),
  bad("a size that is none", "400 InvalidArgument", () => remove("<Delete><Object><Key>k</Key><Size>4.0</Size></Object></Delete>")),
  bad("no digest with many keys", "400 InvalidRequest", () =>
    call("POST", "/kept", { query: [["delete", ""]], body: "<Delete><Object><Key>k</Key></Object></Delete>" }),
  ),
  bad("another digest", "400 BadDigest", () =>
    call("POST", "/kept", {
      query: [["delete", ""]],
      body: "<Delete><Object><Key>k</Key></Object></Delete>",
      headers: { "content-md5": md5Of("x") },
    }),
  ),
  bad("a tag twice", "400 InvalidTag", () => tagging(tagSet(tag("a"), tag("a")))),
  bad("eleven tags", "400 BadRequest", () => tagging(tagSet(...Array.from({ length: 11 }, (_, at) => tag(`t${at}`))))),
  bad("a tag without a name", "400 InvalidTag", () => tagging(tagSet(tag("")))),
  bad("a tag of 129 letters", "400 InvalidTag", () => tagging(tagSet(tag("k".repeat(129))))),
  bad("a tag's value of 257 letters", "400 InvalidTag", () => tagging(tagSet(tag("k", "v".repeat(257))))),
  bad("a location that is no document", "400 MalformedXML", () => call("PUT", "/elsewhere", { body: "eu" })),
  bad("five megabytes of XML", "400 EntityTooLarge", () => remove(`<Delete>${" ".repeat(5 * 1024 * 1024)}</Delete>`)),
];

const lifecycle = (...rules: readonly string[]): Promise<Answer> =>
  call("PUT", "/kept", { query: [["lifecycle", ""]], body: `<LifecycleConfiguration>${rules.join("")}</LifecycleConfiguration>` });
const expiring = (more: string, filter = "<Filter/>"): string => `<Rule><Status>Enabled</Status>${filter}${more}</Rule>`;
const DAYS = "<Expiration><Days>1</Days></Expiration>";
const TAGGED = "<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>";

const LIFECYCLE: readonly Case[] = [
  bad("lifecycle: no rule", "400 MalformedXML", () => lifecycle()),
  bad("lifecycle: 1001 rules", "400 MalformedXML", () => lifecycle(...Array.from({ length: 1001 }, () => expiring(DAYS)))),
  bad("lifecycle: an id twice", "400 InvalidArgument", () => lifecycle(expiring(`<ID>a</ID>${DAYS}`), expiring(`<ID>a</ID>${DAYS}`))),
  bad("lifecycle: an unknown status", "400 MalformedXML", () => lifecycle(`<Rule><Status>On</Status><Filter/>${DAYS}</Rule>`)),
  bad("lifecycle: neither filter nor prefix", "400 MalformedXML", () => lifecycle(expiring(DAYS, ""))),
  bad("lifecycle: no action", "400 InvalidRequest", () => lifecycle(expiring(""))),
  bad("lifecycle: 0 days", "400 InvalidArgument", () => lifecycle(expiring("<Expiration><Days>0</Days></Expiration>"))),
  bad("lifecycle: a date that is no midnight", "400 InvalidArgument", () =>
    lifecycle(expiring("<Expiration><Date>2026-01-01T00:00:01Z</Date></Expiration>")),
  ),
  bad("lifecycle: delete markers by tag", "400 InvalidRequest", () =>
    lifecycle(expiring("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>", TAGGED)),
  ),
  bad("lifecycle: uploads by tag", "400 InvalidRequest", () =>
    lifecycle(
      expiring("<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>", TAGGED),
    ),
  ),
  bad("lifecycle: a transition", "501 NotImplemented", () =>
    lifecycle(expiring(`${DAYS}<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>`)),
  ),
  bad("lifecycle: a transition of earlier versions", "501 NotImplemented", () =>
    lifecycle(
      expiring(
        "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays><StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>",
      ),
    ),
  ),
  bad("lifecycle: the size from which transitions are made", "501 NotImplemented", () =>
    call("PUT", "/kept", {
      query: [["lifecycle", ""]],
      headers: { "x-amz-transition-default-minimum-object-size": "varies_by_storage_class" },
      body: `<LifecycleConfiguration>${expiring(DAYS)}</LifecycleConfiguration>`,
    }),
  ),
  bad("lifecycle of another's bucket", "403 AccessDenied", () =>
    call("PUT", "/kept", {
      key: BOB,
      query: [["lifecycle", ""]],
      body: `<LifecycleConfiguration>${expiring(DAYS)}</LifecycleConfiguration>`,
    }),
  ),
];

const partQuery = (number: string, id = upload): readonly (readonly [string, string])[] => [
  ["partNumber", number],
  ["uploadId", id],
];
const complete = (parts: readonly (readonly [number, string])[], id = upload, path = "/kept/u"): Promise<Answer> => {
  const body = `<CompleteMultipartUpload>${parts.map(([number, etag]) => `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag></Part>`).join("")}</CompleteMultipartUpload>`;
  return call("POST", path, { query: [["uploadId", id]], body });
};
const PART = md5HexOf("part");

const MULTIPART: readonly Case[] = [
  ...["0", "10001", "-1", "abc", "1.5", ""].map((number) =>
    bad(`part number ${JSON.stringify(number)}`, "400 InvalidArgument", () =>
      call("PUT", "/kept/u", { query: partQuery(number), body: "x" }),
    ),
  ),
  bad("a part without an upload", "501 NotImplemented", () => call("PUT", "/kept/u", { query: [["partNumber", "1"]], body: "x" })),
  bad("an upload id that is none", "404 NoSuchUpload", () => call("PUT", "/kept/u", { query: partQuery("1", "guess"), body: "x" })),
  bad("an unknown upload id", "404 NoSuchUpload", () => call("PUT", "/kept/u", { query: partQuery("1", "0000000000001"), body: "x" })),
  bad("an upload of another key", "404 NoSuchUpload", () => call("PUT", "/kept/v", { query: partQuery("1"), body: "x" })),
  bad("a part after the abort", "404 NoSuchUpload", () => call("PUT", "/kept/aborted", { query: partQuery("1", aborted), body: "x" })),
  bad("complete after the abort", "404 NoSuchUpload", () => complete([[1, PART]], aborted, "/kept/aborted")),
  bad("abort of nothing", "404 NoSuchUpload", () => call("DELETE", "/kept/u", { query: [["uploadId", "0000000000001"]] })),
  bad("parts of nothing", "404 NoSuchUpload", () => call("GET", "/kept/u", { query: [["uploadId", "0000000000001"]] })),
  bad("a part too large", "400 EntityTooLarge", () =>
    sendRaw(
      requests.gateway.address,
      rawOf(
        signed("PUT", "/kept/u", {
          query: partQuery("3"),
          headers: { "content-length": String(PART_BYTES_MAX + 1) },
          payload: "UNSIGNED-PAYLOAD",
        }),
      ),
    ),
  ),
  bad("complete: no part", "400 MalformedXML", () => complete([])),
  bad("complete: part 0", "400 MalformedXML", () => complete([[0, PART]])),
  bad("complete: out of order", "400 InvalidPartOrder", () =>
    complete([
      [2, PART],
      [1, PART],
    ]),
  ),
  bad("complete: a part twice", "400 InvalidPartOrder", () =>
    complete([
      [1, PART],
      [1, PART],
    ]),
  ),
  bad("complete: another ETag", "400 InvalidPart", () => complete([[1, md5HexOf("forged")]])),
  bad("complete: a part that did not arrive", "400 InvalidPart", () =>
    complete([
      [1, PART],
      [7, PART],
    ]),
  ),
  bad("complete: a small part that is not the last", "400 EntityTooSmall", () =>
    complete([
      [1, PART],
      [2, PART],
    ]),
  ),
  bad("complete: another size", "400 InvalidRequest", () =>
    call("POST", "/kept/u", {
      query: [["uploadId", upload]],
      headers: { "x-amz-mp-object-size": "5" },
      body: `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${PART}</ETag></Part></CompleteMultipartUpload>`,
    }),
  ),
  bad("a checksum type without an algorithm", "400 InvalidRequest", () =>
    call("POST", "/kept/w", { query: [["uploads", ""]], headers: { "x-amz-checksum-type": "FULL_OBJECT" } }),
  ),
  bad("an unknown checksum", "400 InvalidRequest", () =>
    call("POST", "/kept/w", { query: [["uploads", ""]], headers: { "x-amz-checksum-algorithm": "MD4" } }),
  ),
  bad("max-keys=-1", "400 InvalidArgument", () =>
    call("GET", "/kept", {
      query: [
        ["list-type", "2"],
        ["max-keys", "-1"],
      ],
    }),
  ),
  bad("max-parts=x", "400 InvalidArgument", () =>
    call("GET", "/kept/u", {
      query: [
        ["uploadId", upload],
        ["max-parts", "x"],
      ],
    }),
  ),
  bad("list-type=3", "400 InvalidArgument", () => call("GET", "/kept", { query: [["list-type", "3"]] })),
  bad("encoding-type=x", "400 InvalidArgument", () => call("GET", "/kept", { query: [["encoding-type", "x"]] })),
  bad("a forged continuation token", "400 InvalidArgument", () =>
    call("GET", "/kept", {
      query: [
        ["list-type", "2"],
        ["continuation-token", "!!"],
      ],
    }),
  ),
  bad("a parameter twice", "400 InvalidArgument", () =>
    call("GET", "/kept", {
      query: [
        ["prefix", "a"],
        ["prefix", "b"],
      ],
    }),
  ),
  bad("unknown attributes", "400 InvalidArgument", () =>
    call("GET", "/kept/k", { query: [["attributes", ""]], headers: { "x-amz-object-attributes": "Colour" } }),
  ),
  bad("a copy source that is none", "400 InvalidArgument", () => call("PUT", "/kept/c", { headers: { "x-amz-copy-source": "kept" } })),
  bad("a copy source's range behind its end", "400 InvalidArgument", () =>
    call("PUT", "/kept/u", {
      query: partQuery("3"),
      headers: { "x-amz-copy-source": "/kept/k", "x-amz-copy-source-range": "bytes=10-20" },
    }),
  ),
  bad("an unknown directive", "400 InvalidArgument", () =>
    call("PUT", "/kept/c", { headers: { "x-amz-copy-source": "/kept/k", "x-amz-metadata-directive": "MERGE" } }),
  ),
];

const asBob = { key: BOB };
const TENANCY: readonly Case[] = [
  ...(
    [
      ["GET", "/kept"],
      ["DELETE", "/kept"],
      ["GET", "/kept/k"],
      ["PUT", "/kept/k"],
      ["DELETE", "/kept/k"],
      ["DELETE", "/empty"],
    ] as const
  ).map(([method, path]) =>
    bad(`${method} ${path} of another`, "403 AccessDenied", () =>
      call(method, path, { ...asBob, ...(method === "PUT" ? { body: "mine" } : {}) }),
    ),
  ),
  bad("HEAD of another's bucket", "403", () => call("HEAD", "/kept", asBob)),
  bad("another's bucket made again", "409 BucketAlreadyExists", () => call("PUT", "/kept", asBob)),
  ...["location", "versioning", "tagging", "uploads"].map((name) =>
    bad(`GET ?${name} of another`, "403 AccessDenied", () => call("GET", "/kept", { ...asBob, query: [[name, ""]] })),
  ),
  bad("many deletes of another", "403 AccessDenied", () =>
    call("POST", "/kept", { ...asBob, query: [["delete", ""]], body: "<Delete><Object><Key>k</Key></Object></Delete>" }),
  ),
  bad("another's tags", "403 AccessDenied", () => call("PUT", "/kept/k", { ...asBob, query: [["tagging", ""]], body: tagSet() })),
  bad("a part of another's upload", "403 AccessDenied", () => call("PUT", "/kept/u", { ...asBob, query: partQuery("1"), body: "mine" })),
  bad("another's upload id in the own bucket", "404 NoSuchUpload", () =>
    call("PUT", "/bobs/u", { ...asBob, query: partQuery("1"), body: "mine" }),
  ),
  bad("the own bucket, an upload of another's", "404 NoSuchUpload", () =>
    call("PUT", "/kept/u", { query: partQuery("1", foreign), body: "mine" }),
  ),
  bad("abort of another's upload", "403 AccessDenied", () => call("DELETE", "/kept/u", { ...asBob, query: [["uploadId", upload]] })),
  bad("a copy from another", "403 AccessDenied", () => call("PUT", "/bobs/c", { ...asBob, headers: { "x-amz-copy-source": "/kept/k" } })),
  bad("a part copied from another", "403 AccessDenied", () =>
    call("PUT", "/bobs/u", { ...asBob, query: partQuery("1", foreign), headers: { "x-amz-copy-source": "/kept/k" } }),
  ),
  bad("a copy to another", "403 AccessDenied", () => call("PUT", "/kept/c", { ...asBob, headers: { "x-amz-copy-source": "/bobs/k" } })),
  bad("an expected owner who is not", "403 AccessDenied", () =>
    call("GET", "/kept/k", { headers: { "x-amz-expected-bucket-owner": "bob" } }),
  ),
];

const GROUPS = { HTTP, KEYS, XML, LIFECYCLE, MULTIPART, TENANCY };

testRefusals(GROUPS, prepare);

test("bad input: there are at least 80 cases", () => {
  assert.ok(Object.values(GROUPS).flat().length >= 80);
});
