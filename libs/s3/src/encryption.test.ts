// Encryption as clients ask for it: what is read, what is refused and how, and what answers say.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import {
  ENCRYPTION_HEADERS,
  encryptionConfigurationXml,
  encryptionHeaders,
  readCustomerKey,
  readEncryption,
  readEncryptionConfiguration,
  withoutCustomerKeys,
} from "./encryption.ts";
import { S3Error } from "./errors.ts";
import { fieldsOf } from "./fields.ts";
import { ENCRYPTION_CONTEXT_BYTES_MAX, KMS_KEY_ID_CHARS_MAX } from "./limits.ts";

const SSE = "x-amz-server-side-encryption";
const SOURCE = "x-amz-copy-source-server-side-encryption";
const KEY = new Uint8Array(32).fill(7);
const base64 = (bytes: Uint8Array | string): string => Buffer.from(bytes).toString("base64");
const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("base64");
const CUSTOMER = { "-customer-algorithm": "AES256", "-customer-key": base64(KEY), "-customer-key-md5": md5(KEY) };

function outcome(read: () => unknown): unknown {
  try {
    return read();
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error, String(thrown));
    return thrown.code;
  }
}

const fieldsWith = (prefix: string, said: Readonly<Record<string, string>>) =>
  fieldsOf(Object.entries(said).map(([name, value]) => [prefix + name, value] as const));

const REQUESTS: readonly (readonly [said: Readonly<Record<string, string>>, expected: unknown])[] = [
  [{}, undefined],
  [{ "": "AES256" }, { kind: "managed" }],
  [{ "": "AES256", "-bucket-key-enabled": "false" }, { kind: "managed" }],
  [{ "": "aws:kms" }, { kind: "service", keyId: undefined, context: "" }],
  [
    { "": "aws:kms", "-aws-kms-key-id": "" },
    { kind: "service", keyId: undefined, context: "" },
  ],
  [
    { "": "aws:kms", "-aws-kms-key-id": "k" },
    { kind: "service", keyId: "k", context: "" },
  ],
  [
    { "": "aws:kms", "-context": base64('{"b":"2","a":"1"}') },
    { kind: "service", keyId: undefined, context: '{"a":"1","b":"2"}' },
  ],
  [CUSTOMER, { kind: "customer", key: KEY }],
  [{ "": "" }, "InvalidArgument"],
  [{ "": "aes256" }, "InvalidArgument"],
  [{ "": "aws:kms:dsse" }, "NotImplemented"],
  [{ "": "AES256", "-bucket-key-enabled": "true" }, "NotImplemented"],
  [{ "": "aws:kms", "-bucket-key-enabled": "true" }, "NotImplemented"],
  [{ "": "aws:kms", "-bucket-key-enabled": "maybe" }, "InvalidArgument"],
  [{ "": "AES256", "-aws-kms-key-id": "k" }, "InvalidArgument"],
  [{ "-aws-kms-key-id": "k" }, "InvalidArgument"],
  [{ "-context": base64("{}") }, "InvalidArgument"],
  [
    { "": "aws:kms", "-aws-kms-key-id": "k".repeat(KMS_KEY_ID_CHARS_MAX) },
    { kind: "service", keyId: "k".repeat(2048), context: "" },
  ],
  [{ "": "aws:kms", "-aws-kms-key-id": "k".repeat(KMS_KEY_ID_CHARS_MAX + 1) }, "InvalidArgument"],
  ...["no base64", base64("no JSON"), base64("[]"), base64('{"a":1}'), base64("null"), base64(Uint8Array.of(0xff))].map(
    (text) => [{ "": "aws:kms", "-context": text }, "InvalidArgument"] as const,
  ),
  [{ "": "aws:kms", "-context": base64(`{"a":"${"b".repeat(ENCRYPTION_CONTEXT_BYTES_MAX)}"}`) }, "InvalidArgument"],
  [{ ...CUSTOMER, "": "AES256" }, "InvalidArgument"],
  [{ ...CUSTOMER, "": "aws:kms" }, "InvalidArgument"],
  [{ ...CUSTOMER, "-aws-kms-key-id": "k" }, "InvalidArgument"],
];

for (const [said, expected] of REQUESTS) {
  const name = JSON.stringify(said).slice(0, 150);
  test(`readEncryption: ${name}: ${typeof expected === "string" ? expected : "as it was asked for"}`, () => {
    const found = outcome(() => readEncryption(fieldsWith(SSE, said)));
    if (typeof found === "object" && found !== null && "key" in found) assert.deepEqual(Uint8Array.from(found.key as Uint8Array), KEY);
    else assert.deepEqual(found, expected);
  });
}

for (const [of, prefix] of [
  ["object", SSE],
  ["source", SOURCE],
] as const) {
  test(`readCustomerKey: of the ${of}: exactly what S3 asks for, or refused`, () => {
    const read = (said: Readonly<Record<string, string>>): unknown => outcome(() => readCustomerKey(fieldsWith(prefix, said), of));
    assert.equal(read({}), undefined);
    assert.deepEqual(Uint8Array.from(read(CUSTOMER) as Uint8Array), KEY);
    for (const left of Object.keys(CUSTOMER)) {
      const { [left as keyof typeof CUSTOMER]: _, ...rest } = CUSTOMER;
      assert.equal(read(rest), "InvalidArgument", `without ${left}`);
    }
    assert.equal(read({ ...CUSTOMER, "-customer-algorithm": "AES128" }), "InvalidEncryptionAlgorithmError");
    const long = new Uint8Array(33);
    assert.equal(read({ ...CUSTOMER, "-customer-key": base64(long), "-customer-key-md5": md5(long) }), "InvalidArgument");
    assert.equal(read({ ...CUSTOMER, "-customer-key": "%" }), "InvalidArgument");
    assert.equal(read({ ...CUSTOMER, "-customer-key-md5": md5(long) }), "InvalidArgument");
    assert.equal(read({ ...CUSTOMER, "-customer-key-md5": "x" }), "InvalidArgument");
  });
}

test("readCustomerKey: of an object: the server's keys are not asked for by a read", () => {
  assert.equal(
    outcome(() => readCustomerKey(fieldsOf([[SSE, "AES256"]]))),
    "InvalidArgument",
  );
  assert.equal(readCustomerKey(fieldsOf([[SSE, "AES256"]]), "source"), undefined, "of a copy it is the copy's");
});

test("encryption: headers: sent twice: refused; what answers say", () => {
  for (const name of ENCRYPTION_HEADERS) {
    const twice = fieldsOf([
      [name, "a"],
      [name, "a"],
    ]);
    assert.equal(
      outcome(() => readEncryption(twice)),
      "InvalidArgument",
      name,
    );
  }
  assert.deepEqual(encryptionHeaders(undefined, undefined), []);
  assert.deepEqual(encryptionHeaders({ kind: "managed" }, undefined), [[SSE, "AES256"]]);
  assert.deepEqual(encryptionHeaders({ kind: "service", keyId: "k" }, undefined), [
    [SSE, "aws:kms"],
    [`${SSE}-aws-kms-key-id`, "k"],
  ]);
  assert.deepEqual(encryptionHeaders({ kind: "customer" }, KEY), [
    [`${SSE}-customer-algorithm`, "AES256"],
    [`${SSE}-customer-key-MD5`, md5(KEY)],
  ]);
});

const configured = (rule: string): Uint8Array =>
  new TextEncoder().encode(`<ServerSideEncryptionConfiguration>${rule}</ServerSideEncryptionConfiguration>`);
const applied = (text: string): string => `<Rule><ApplyServerSideEncryptionByDefault>${text}</ApplyServerSideEncryptionByDefault></Rule>`;
const AES = "<SSEAlgorithm>AES256</SSEAlgorithm>";
const KMS = "<SSEAlgorithm>aws:kms</SSEAlgorithm>";

const CONFIGURATIONS: readonly (readonly [rule: string, expected: unknown])[] = [
  [applied(AES), { kind: "managed" }],
  [applied(AES).replace("</Rule>", "<BucketKeyEnabled>false</BucketKeyEnabled></Rule>"), { kind: "managed" }],
  [applied(KMS), { kind: "service", keyId: undefined }],
  [applied(`${KMS}<KMSMasterKeyID>k</KMSMasterKeyID>`), { kind: "service", keyId: "k" }],
  ["", "MalformedXML"],
  ["<Rule/>", "MalformedXML"],
  [applied(AES) + applied(AES), "MalformedXML"],
  [applied(""), "MalformedXML"],
  [applied("<SSEAlgorithm>AES128</SSEAlgorithm>"), "MalformedXML"],
  [applied(AES + AES), "MalformedXML"],
  [applied(`${AES}<Other/>`), "MalformedXML"],
  [applied(AES).replace("</Rule>", "<Other/></Rule>"), "MalformedXML"],
  [applied(AES).replace("</Rule>", "text</Rule>"), "MalformedXML"],
  [`<Rule>${"<ApplyServerSideEncryptionByDefault/>".repeat(2)}</Rule>`, "MalformedXML"],
  [applied(`${AES}<KMSMasterKeyID>k</KMSMasterKeyID>`), "InvalidArgument"],
  [applied("<SSEAlgorithm>aws:kms:dsse</SSEAlgorithm>"), "NotImplemented"],
  [applied(KMS).replace("</Rule>", "<BucketKeyEnabled>true</BucketKeyEnabled></Rule>"), "NotImplemented"],
  [applied(AES).replace("</Rule>", "<BlockedEncryptionTypes/></Rule>"), "NotImplemented"],
];

for (const [rule, expected] of CONFIGURATIONS) {
  test(`readEncryptionConfiguration: ${rule}: ${typeof expected === "string" ? expected : "read, and written as it is read"}`, () => {
    assert.deepEqual(
      outcome(() => readEncryptionConfiguration(configured(rule))),
      expected,
    );
    if (typeof expected === "string") return;
    const written = encryptionConfigurationXml(expected as ReturnType<typeof readEncryptionConfiguration>);
    assert.deepEqual(readEncryptionConfiguration(new TextEncoder().encode(written)), expected);
  });
}

test("encryption: texts for answers: the keys of customers are not in them, all else is", () => {
  const text = [
    "PUT",
    "/b/k",
    "X-Amz-Server-Side-Encryption-Customer-Key=c2VjcmV0&X-Amz-SignedHeaders=host",
    `${SOURCE}-customer-key:c2VjcmV0`,
    `${SSE}-customer-key:c2VjcmV0`,
    `${SSE}-customer-key-md5:digest`,
    `host;${SSE}-customer-key;${SSE}-customer-key-md5`,
  ].join("\n");
  const shown = withoutCustomerKeys(text);
  assert.ok(!shown.includes("c2VjcmV0"));
  assert.equal(shown.replaceAll("(hidden)", "c2VjcmV0"), text);
});
