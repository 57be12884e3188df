// Locks as clients send them: what is read, what is refused and how, and that an answer says what was sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { authorize } from "./access/authorize.ts";
import { readPolicy } from "./access/policy.ts";
import { S3Error } from "./errors.ts";
import { fieldsOf } from "./fields.ts";
import { LOCK_DEFAULT_DAYS_MAX, LOCK_DEFAULT_YEARS_MAX } from "./limits.ts";
import {
  legalHoldXml,
  lockConfigurationXml,
  lockFacts,
  lockHeaders,
  readBypass,
  readLegalHold,
  readLockConfiguration,
  readLockEnabled,
  readLockHeaders,
  readRetention,
  retentionXml,
} from "./object-lock.ts";
import type { BucketLocking, ObjectLock } from "./types.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const DATE = "2030-01-02T03:04:05.006Z";
const UNTIL_MS = Date.UTC(2030, 0, 2, 3, 4, 5, 6);

function outcome(read: () => unknown): unknown {
  try {
    return read();
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error, String(thrown));
    return thrown.code;
  }
}

const LOCK = "x-amz-object-lock-";
const HEADERS: readonly (readonly [headers: Readonly<Record<string, string>>, expected: unknown])[] = [
  [{}, undefined],
  [
    { mode: "GOVERNANCE", "retain-until-date": DATE, "legal-hold": "ON" },
    { retention: { mode: "GOVERNANCE", untilMs: UNTIL_MS }, legalHold: "ON" },
  ],
  [{ mode: "COMPLIANCE", "retain-until-date": "2030-01-02T03:04:05Z" }, { retention: { mode: "COMPLIANCE", untilMs: UNTIL_MS - 6 } }],
  [{ mode: "COMPLIANCE", "retain-until-date": "2030-01-02T03:04:05.005000001Z" }, { retention: { mode: "COMPLIANCE", untilMs: UNTIL_MS } }],
  [{ "legal-hold": "OFF" }, { legalHold: "OFF" }],
  [{ "legal-hold": "on" }, "InvalidArgument"],
  [{ "legal-hold": "" }, "InvalidArgument"],
  [{ mode: "GOVERNANCE" }, "InvalidArgument"],
  [{ "retain-until-date": DATE }, "InvalidArgument"],
  [{ mode: "governance", "retain-until-date": DATE }, "InvalidArgument"],
  [{ mode: "GOVERNANCE", "retain-until-date": "tomorrow" }, "InvalidArgument"],
  [{ mode: "GOVERNANCE", "retain-until-date": "2030-02-30T00:00:00Z" }, "InvalidArgument"],
  [{ mode: "GOVERNANCE", "retain-until-date": "" }, "InvalidArgument"],
];

for (const [headers, expected] of HEADERS) {
  test(`readLockHeaders: ${JSON.stringify(headers)}: ${typeof expected === "string" ? expected : "read, and answered as it was sent"}`, () => {
    const fields = fieldsOf(Object.entries(headers).map(([name, value]) => [LOCK + name, value] as const));
    const found = outcome(() => readLockHeaders(fields));
    assert.deepEqual(found, expected);
    if (typeof found !== "object") return;
    const answered = fieldsOf(lockHeaders(found as ObjectLock));
    assert.deepEqual(readLockHeaders(answered), found);
  });
}

for (const [value, bypass, enabled] of [
  ["true", "governance", true],
  ["True", "governance", true],
  ["false", undefined, false],
  ["", "InvalidArgument", "InvalidArgument"],
  ["yes", "InvalidArgument", "InvalidArgument"],
] as const) {
  test(`readBypass, readLockEnabled: ${value}: ${bypass}, ${enabled}`, () => {
    const fields = fieldsOf([
      ["x-amz-bypass-governance-retention", value],
      ["x-amz-bucket-object-lock-enabled", value],
    ]);
    assert.deepEqual([outcome(() => readBypass(fields)), outcome(() => readLockEnabled(fields))], [bypass, enabled]);
  });
}

const ENABLED = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
const rule = (content: string): string => `<Rule><DefaultRetention>${content}</DefaultRetention></Rule>`;
const mode = (name = "COMPLIANCE"): string => `<Mode>${name}</Mode>`;

const CONFIGURATIONS: readonly (readonly [content: string, expected: BucketLocking | string])[] = [
  [ENABLED, {}],
  [ENABLED + rule(`${mode()}<Days>1</Days>`), { defaultRetention: { mode: "COMPLIANCE", unit: "days", count: 1 } }],
  [rule(`<Years>2</Years>${mode("GOVERNANCE")}`) + ENABLED, { defaultRetention: { mode: "GOVERNANCE", unit: "years", count: 2 } }],
  [
    ENABLED + rule(`${mode()}<Days>${LOCK_DEFAULT_DAYS_MAX}</Days>`),
    { defaultRetention: { mode: "COMPLIANCE", unit: "days", count: LOCK_DEFAULT_DAYS_MAX } },
  ],
  [ENABLED + rule(`${mode()}<Days>${LOCK_DEFAULT_DAYS_MAX + 1}</Days>`), "InvalidArgument"],
  [ENABLED + rule(`${mode()}<Years>${LOCK_DEFAULT_YEARS_MAX + 1}</Years>`), "InvalidArgument"],
  [ENABLED + rule(`${mode()}<Days>0</Days>`), "InvalidArgument"],
  [ENABLED + rule(`${mode()}<Days>-1</Days>`), "InvalidArgument"],
  [ENABLED + rule(`${mode()}<Days>1.5</Days>`), "MalformedXML"],
  [ENABLED + rule(`${mode()}<Days>1</Days><Years>1</Years>`), "MalformedXML"],
  [ENABLED + rule(mode()), "MalformedXML"],
  [ENABLED + rule("<Days>1</Days>"), "MalformedXML"],
  [ENABLED + rule(`${mode("OTHER")}<Days>1</Days>`), "MalformedXML"],
  [ENABLED + rule(`${mode()}<Days>1</Days>`).repeat(2), "MalformedXML"],
  [ENABLED + "<Rule/>", "MalformedXML"],
  [ENABLED + "<Other/>", "MalformedXML"],
  ["<ObjectLockEnabled>Disabled</ObjectLockEnabled>", "MalformedXML"],
  [rule(`${mode()}<Days>1</Days>`), "MalformedXML"],
  ["", "MalformedXML"],
];

for (const [content, expected] of CONFIGURATIONS) {
  test(`readLockConfiguration: ${content}: ${typeof expected === "string" ? expected : "read, and answered as it was sent"}`, () => {
    const found = outcome(() => readLockConfiguration(bytes(`<ObjectLockConfiguration>${content}</ObjectLockConfiguration>`)));
    assert.deepEqual(found, expected);
    if (typeof found === "object") assert.deepEqual(readLockConfiguration(bytes(lockConfigurationXml(found as BucketLocking))), found);
  });
}

for (const [content, expected] of [
  ["", undefined],
  [`<RetainUntilDate>${DATE}</RetainUntilDate>${mode("GOVERNANCE")}`, { mode: "GOVERNANCE", untilMs: UNTIL_MS }],
  [mode(), "MalformedXML"],
  [`<RetainUntilDate>${DATE}</RetainUntilDate>`, "MalformedXML"],
  [`${mode()}<RetainUntilDate>never</RetainUntilDate>`, "MalformedXML"],
  [`${mode("X")}<RetainUntilDate>${DATE}</RetainUntilDate>`, "MalformedXML"],
  [`${mode()}<RetainUntilDate>${DATE}</RetainUntilDate><Days>1</Days>`, "MalformedXML"],
] as const) {
  test(`readRetention: ${content}: ${typeof expected === "string" ? expected : "read, and answered as it was sent"}`, () => {
    assert.deepEqual(
      outcome(() => readRetention(bytes(`<Retention>${content}</Retention>`))),
      expected,
    );
    if (typeof expected === "object") assert.deepEqual(readRetention(bytes(retentionXml(expected))), expected);
  });
}

test("readLegalHold: ON and OFF, as they are answered; MalformedXML for anything else", () => {
  for (const status of ["ON", "OFF"] as const) assert.equal(readLegalHold(bytes(legalHoldXml(status))), status);
  for (const content of ["", "<Status>On</Status>", "<Status/>", "<Status>ON</Status><Status>ON</Status>", "<Other/>"])
    assert.equal(
      outcome(() => readLegalHold(bytes(`<LegalHold>${content}</LegalHold>`))),
      "MalformedXML",
    );
});

test("conditions on locks: of mode, legal hold, date, and days that are left, to the hour", () => {
  const nowMs = Date.UTC(2030, 0, 1);
  const ask = (condition: object, lock: ObjectLock): string => {
    const statement = {
      Effect: "Allow",
      Principal: "*",
      Action: "s3:PutObjectRetention",
      Resource: "arn:aws:s3:::b/*",
      Condition: condition,
    };
    const policy = readPolicy(bytes(JSON.stringify({ Version: "2012-10-17", Statement: [statement] })), "b", () => true);
    const block = { blockPublicAcls: false, ignorePublicAcls: false, blockPublicPolicy: false, restrictPublicBuckets: false };
    const ownership = "BucketOwnerEnforced";
    const access = { bucket: "b", owner: "o", policy, block, ownership, grants: [], publicAccess: "possible" } as const;
    const facts = lockFacts(lock, nowMs);
    return authorize(access, { caller: { kind: "tenant", tenant: "t" }, action: "s3:PutObjectRetention", key: "k", facts }).kind;
  };
  const kept = (days: number): ObjectLock => ({ retention: { mode: "GOVERNANCE", untilMs: nowMs + days * 86_400_000 } });
  const atMostTen = { NumericLessThanEquals: { "s3:object-lock-remaining-retention-days": "10" } };
  assert.deepEqual(
    [ask(atMostTen, kept(10)), ask(atMostTen, kept(10.05)), ask(atMostTen, { legalHold: "ON" })],
    ["allowed", "denied", "denied"],
  );
  const governance = { StringEquals: { "s3:object-lock-mode": "GOVERNANCE" } };
  assert.deepEqual([ask(governance, kept(1)), ask(governance, {})], ["allowed", "denied"]);
  const off = { StringEquals: { "s3:object-lock-legal-hold": "OFF" } };
  assert.deepEqual([ask(off, { legalHold: "OFF" }), ask(off, { legalHold: "ON" })], ["allowed", "denied"]);
  const until = { DateLessThan: { "s3:object-lock-retain-until-date": "2030-01-03T00:00:00Z" } };
  assert.deepEqual([ask(until, kept(1)), ask(until, kept(3))], ["allowed", "denied"]);
});
