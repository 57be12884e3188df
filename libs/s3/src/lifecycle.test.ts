// Lifecycle rules as clients send them: what is read, what is refused and how, and that an answer says what was sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LIFECYCLE_BYTES_MAX, LIFECYCLE_NEWER_MAX, LIFECYCLE_RULES_MAX } from "./limits.ts";
import { S3Error } from "./errors.ts";
import { lifecycleXml, readLifecycle, type LifecycleRule } from "./xml/lifecycle.ts";

const read = (...rules: readonly string[]): readonly LifecycleRule[] =>
  readLifecycle(new TextEncoder().encode(`<LifecycleConfiguration>${rules.join("")}</LifecycleConfiguration>`));
const rule = (more: string, filter = "<Filter/>"): string => `<Rule><ID>r</ID><Status>Enabled</Status>${filter}${more}</Rule>`;
const DAYS = "<Expiration><Days>1</Days></Expiration>";
const tag = (key: string): string => `<Tag><Key>${key}</Key><Value>v</Value></Tag>`;
const and = (...predicates: readonly string[]): string => `<Filter><And>${predicates.join("")}</And></Filter>`;
const expiration = (content: string): string => `<Expiration>${content}</Expiration>`;
const nonCurrent = (content: string): string => `<NoncurrentVersionExpiration>${content}</NoncurrentVersionExpiration>`;
const abort = (days: string): string =>
  `<AbortIncompleteMultipartUpload><DaysAfterInitiation>${days}</DaysAfterInitiation></AbortIncompleteMultipartUpload>`;
const MARKERS = expiration("<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>");

const plain = { id: "r", isEnabled: true, form: "filter", tags: {} } as const;
const days = { kind: "days", days: 1 } as const;

const READ: readonly (readonly [name: string, xml: string, expected: object])[] = [
  ["an empty filter", rule(DAYS), { ...plain, expiration: days }],
  ["a prefix of before filters", rule(DAYS, "<Prefix>a/</Prefix>"), { ...plain, form: "prefix", prefix: "a/", expiration: days }],
  ["an empty prefix in a filter", rule(DAYS, "<Filter><Prefix/></Filter>"), { ...plain, prefix: "", expiration: days }],
  ["one tag", rule(DAYS, `<Filter>${tag("a")}</Filter>`), { ...plain, tags: { a: "v" }, expiration: days }],
  [
    "all predicates",
    rule(
      DAYS,
      and(
        "<Prefix>p</Prefix>",
        tag("a"),
        tag("b"),
        "<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>",
        "<ObjectSizeLessThan>7</ObjectSizeLessThan>",
      ),
    ),
    { ...plain, prefix: "p", tags: { a: "v", b: "v" }, sizeAboveBytes: 5, sizeBelowBytes: 7, expiration: days },
  ],
  [
    "a date",
    rule(expiration("<Date>2026-11-24T00:00:00.000Z</Date>")),
    { ...plain, expiration: { kind: "date", dateMs: Date.UTC(2026, 10, 24) } },
  ],
  ["a day", rule(expiration("<Date>2026-11-24</Date>")), { ...plain, expiration: { kind: "date", dateMs: Date.UTC(2026, 10, 24) } }],
  ["delete markers", rule(MARKERS), { ...plain, expiration: { kind: "markers" } }],
  [
    "earlier versions",
    rule(nonCurrent(`<NoncurrentDays>3</NoncurrentDays><NewerNoncurrentVersions>${LIFECYCLE_NEWER_MAX}</NewerNoncurrentVersions>`)),
    { ...plain, nonCurrent: { days: 3, newerKept: LIFECYCLE_NEWER_MAX } },
  ],
  ["uploads", rule(abort("7")), { ...plain, abortDays: 7 }],
  [
    "a rule that is off",
    "<Rule><ID>r</ID><Status>Disabled</Status><Filter/>" + DAYS + "</Rule>",
    { ...plain, isEnabled: false, expiration: days },
  ],
];

for (const [name, text, expected] of READ) {
  test(`lifecycle rules: ${name}: read, and answered as they were sent`, () => {
    const rules = read(text);
    assert.deepEqual(JSON.parse(JSON.stringify(rules)), [expected]);
    assert.deepEqual(readLifecycle(new TextEncoder().encode(lifecycleXml(rules))), rules);
  });
}

test("lifecycle rules: without ids: each gets one that no other has", () => {
  const anonymous = `<Rule><Status>Enabled</Status><Filter/>${DAYS}</Rule>`;
  const named = `<Rule><ID>rule-1</ID><Status>Enabled</Status><Filter/>${DAYS}</Rule>`;
  assert.deepEqual(
    read(anonymous, named, anonymous).map(({ id }) => id),
    ["rule-2", "rule-1", "rule-3"],
  );
});

test("lifecycle rules: as many as there may be, and one more", () => {
  const many = (count: number): string[] => Array.from({ length: count }, (_, at) => rule(DAYS).replace(">r<", `>${at}<`));
  assert.equal(read(...many(LIFECYCLE_RULES_MAX)).length, LIFECYCLE_RULES_MAX);
  assert.throws(() => read(...many(LIFECYCLE_RULES_MAX + 1)), { code: "MalformedXML" });
  assert.throws(() => read(rule(DAYS), " ".repeat(LIFECYCLE_BYTES_MAX)), { code: "MalformedXML" });
});

const REFUSED: readonly (readonly [code: string, ...rules: readonly string[]])[] = [
  ["MalformedXML"],
  ["MalformedXML", "<Other/>"],
  ["MalformedXML", rule(DAYS + DAYS)],
  ["MalformedXML", rule(`${DAYS}<Unknown/>`)],
  ["MalformedXML", `<Rule><Filter/>${DAYS}</Rule>`],
  ["MalformedXML", `<Rule><Status>enabled</Status><Filter/>${DAYS}</Rule>`],
  ["MalformedXML", rule(DAYS, "")],
  ["MalformedXML", rule(DAYS, "<Filter/><Prefix/>")],
  ["MalformedXML", rule(DAYS, `<Filter>${tag("a")}${tag("b")}</Filter>`)],
  ["MalformedXML", rule(DAYS, and(tag("a")))],
  ["MalformedXML", rule(DAYS, and("<Prefix>a</Prefix>", "<Prefix>b</Prefix>"))],
  ["MalformedXML", rule(DAYS, and("<And/>", tag("a")))],
  ["InvalidTag", rule(DAYS, and(tag("a"), tag("a")))],
  ["InvalidTag", rule(DAYS, `<Filter>${tag("")}</Filter>`)],
  ["InvalidArgument", rule(DAYS, "<Filter><ObjectSizeGreaterThan>-1</ObjectSizeGreaterThan></Filter>")],
  ["InvalidRequest", rule(DAYS, and("<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>", "<ObjectSizeLessThan>5</ObjectSizeLessThan>"))],
  ["InvalidRequest", rule(DAYS, `<Prefix>${"p".repeat(1025)}</Prefix>`)],
  ["InvalidRequest", rule("")],
  ["InvalidRequest", rule(expiration("<ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker>"))],
  ["MalformedXML", rule("<Expiration/>")],
  ["MalformedXML", rule(expiration("<Days>1</Days><Date>2026-01-01</Date>"))],
  ["InvalidArgument", rule(expiration("<Days>0</Days>"))],
  ["InvalidArgument", rule(expiration("<Days>1.5</Days>"))],
  ["InvalidArgument", rule(expiration("<Days>2147483648</Days>"))],
  ["MalformedXML", rule(expiration("<Date>tomorrow</Date>"))],
  ["InvalidArgument", rule(expiration("<Date>2026-01-01T12:00:00Z</Date>"))],
  ["MalformedXML", rule(nonCurrent("<NewerNoncurrentVersions>1</NewerNoncurrentVersions>"))],
  ["InvalidArgument", rule(nonCurrent("<NoncurrentDays>0</NoncurrentDays>"))],
  ["InvalidArgument", rule(nonCurrent("<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>0</NewerNoncurrentVersions>"))],
  ["InvalidArgument", rule(nonCurrent("<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>101</NewerNoncurrentVersions>"))],
  [
    "InvalidRequest",
    rule(nonCurrent("<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>1</NewerNoncurrentVersions>"), "<Prefix/>"),
  ],
  ["InvalidArgument", rule(abort("0"))],
  ["InvalidRequest", rule(abort("1"), `<Filter>${tag("a")}</Filter>`)],
  ["InvalidRequest", rule(MARKERS, `<Filter>${tag("a")}</Filter>`)],
  ["InvalidRequest", rule(MARKERS, "<Filter><ObjectSizeLessThan>9</ObjectSizeLessThan></Filter>")],
  ["InvalidArgument", rule(DAYS), rule(DAYS)],
  ["InvalidArgument", `<Rule><ID>${"i".repeat(256)}</ID><Status>Enabled</Status><Filter/>${DAYS}</Rule>`],
  ["NotImplemented", rule(`${DAYS}<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>`)],
  ["NotImplemented", rule("<NoncurrentVersionTransition/>")],
];

test("lifecycle rules: what S3 refuses, and transitions: refused with its code", () => {
  for (const [code, ...rules] of REFUSED) {
    assert.throws(
      () => read(...rules),
      (thrown) => thrown instanceof S3Error && thrown.code === code,
      `${code}: ${rules.join("").slice(0, 300)}`,
    );
  }
});
