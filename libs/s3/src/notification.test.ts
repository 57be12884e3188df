// Event rules as clients send them, what is refused and how, and the record of an event as consumers of S3's read it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { S3Error } from "./errors.ts";
import { eventRecordJson, testEventJson } from "./event-record.ts";
import { EVENT_ID_CHARS_MAX, EVENT_RULES_MAX } from "./limits.ts";
import { notificationXml, readNotification, type NotificationRule } from "./xml/notification.ts";

const ARN = "arn:aws:sqs:us-east-1:ann:q";
const read = (...rules: readonly string[]): readonly NotificationRule[] =>
  readNotification(new TextEncoder().encode(`<NotificationConfiguration>${rules.join("")}</NotificationConfiguration>`));
const queue = (...more: readonly string[]): string => `<QueueConfiguration><Queue>${ARN}</Queue>${more.join("")}</QueueConfiguration>`;
const ON_PUT = "<Event>s3:ObjectCreated:Put</Event>";
const filter = (...rules: readonly (readonly [string, string])[]): string =>
  `<Filter><S3Key>${rules.map(([name, value]) => `<FilterRule><Name>${name}</Name><Value>${value}</Value></FilterRule>`).join("")}</S3Key></Filter>`;

const plain = { kind: "queue", arn: ARN, events: ["ObjectCreated:Put"] } as const;

const READ: readonly (readonly [name: string, rules: readonly string[], expected: readonly object[]])[] = [
  ["no rules", [], []],
  ["without an Id: one is made", [queue(ON_PUT)], [{ ...plain, id: "rule-1" }]],
  [
    "a made Id is none that is there",
    [queue("<Id>rule-2</Id>", ON_PUT), queue(ON_PUT)],
    [
      { ...plain, id: "rule-2" },
      { ...plain, id: "rule-3" },
    ],
  ],
  [
    "prefix and suffix, whatever the case",
    [queue("<Id>a</Id>", ON_PUT, filter(["Prefix", "p/"], ["suffix", ".jpg"]))],
    [{ ...plain, id: "a", prefix: "p/", suffix: ".jpg" }],
  ],
  ["an empty filter", [queue("<Id>a</Id>", ON_PUT, filter())], [{ ...plain, id: "a" }]],
  ["an event twice", [queue("<Id>a</Id>", ON_PUT, ON_PUT)], [{ ...plain, id: "a" }]],
  [
    "a topic, with events of a kind",
    ["<TopicConfiguration><Id>t</Id><Topic>arn:aws:sns:::t</Topic><Event>s3:ObjectRemoved:*</Event></TopicConfiguration>"],
    [{ id: "t", kind: "topic", arn: "arn:aws:sns:::t", events: ["ObjectRemoved:*"] }],
  ],
];

for (const [name, rules, expected] of READ)
  test(`event rules: ${name}: read, and the answer says the same`, () => {
    const found = read(...rules);
    assert.deepEqual(found, expected);
    assert.deepEqual(readNotification(new TextEncoder().encode(notificationXml(found))), expected);
  });

const REFUSED: readonly (readonly [name: string, code: string, rules: readonly string[]])[] = [
  ["a function", "NotImplemented", ["<CloudFunctionConfiguration/>"]],
  ["EventBridge", "NotImplemented", ["<EventBridgeConfiguration/>"]],
  ["an unknown element", "MalformedXML", ["<PigeonConfiguration/>"]],
  ["an unknown element of a rule", "MalformedXML", [queue(ON_PUT, "<Retries>3</Retries>")]],
  ["the target of the other kind", "MalformedXML", [queue(ON_PUT, "<Topic>t</Topic>")]],
  ["text between elements", "MalformedXML", [queue("text", ON_PUT)]],
  ["no target", "MalformedXML", [`<QueueConfiguration>${ON_PUT}</QueueConfiguration>`]],
  ["two targets", "MalformedXML", [queue(`<Queue>${ARN}</Queue>`, ON_PUT)]],
  ["no event", "MalformedXML", [queue()]],
  ["an unknown event", "InvalidArgument", [queue("<Event>s3:ObjectRead:Get</Event>")]],
  ["an event that cannot happen here", "InvalidArgument", [queue("<Event>s3:ObjectRestore:Post</Event>")]],
  ["an event without s3:", "InvalidArgument", [queue("<Event>ObjectCreated:Put</Event>")]],
  ["one Id twice", "InvalidArgument", [queue("<Id>a</Id>", ON_PUT), queue("<Id>a</Id>", ON_PUT)]],
  ["an Id that is too long", "InvalidArgument", [queue(`<Id>${"i".repeat(EVENT_ID_CHARS_MAX + 1)}</Id>`, ON_PUT)]],
  ["a filter of something else", "MalformedXML", [queue(ON_PUT, "<Filter><Tag/></Filter>")]],
  ["an unknown name of a filter", "InvalidArgument", [queue(ON_PUT, filter(["infix", "a"]))]],
  ["two prefixes", "InvalidArgument", [queue(ON_PUT, filter(["prefix", "a"], ["Prefix", "b"]))]],
  ["a prefix longer than a key", "InvalidArgument", [queue(ON_PUT, filter(["prefix", "a".repeat(1025)]))]],
  [
    "a filter rule without a value",
    "MalformedXML",
    [queue(ON_PUT, "<Filter><S3Key><FilterRule><Name>prefix</Name></FilterRule></S3Key></Filter>")],
  ],
  ["too many rules", "MalformedXML", Array.from({ length: EVENT_RULES_MAX + 1 }, () => queue(ON_PUT))],
];

for (const [name, code, rules] of REFUSED)
  test(`event rules: ${name}: refused`, () => {
    assert.throws(
      () => read(...rules),
      (thrown) => thrown instanceof S3Error && thrown.code === code,
    );
  });

test("event rules: as many as there may be, with Ids as long as they may be: read", () => {
  assert.equal(read(...Array.from({ length: EVENT_RULES_MAX }, () => queue(ON_PUT))).length, EVENT_RULES_MAX);
  assert.equal(read(queue(`<Id>${"i".repeat(EVENT_ID_CHARS_MAX)}</Id>`, ON_PUT)).length, 1);
});

const EVENT = {
  name: "ObjectCreated:Put",
  region: "us-east-1",
  atMs: Date.UTC(2026, 10, 26, 1, 2, 3, 4),
  cause: { principal: "ann", address: "10.0.0.1", requestId: "4442587FB7D0A2F9" },
  ruleId: "images",
  bucket: "photos",
  tenant: "ann",
  key: "Happy Face+ü/1.jpg",
  object: { sizeBytes: 1024, etag: "d41d8cd98f00b204e9800998ecf8427e" },
  versionId: "v1",
  sequencer: "00000000000000000000000000000001",
};

test("event record: as S3's: keys as forms encode them, times with milliseconds, sizes as numbers", () => {
  assert.deepEqual(JSON.parse(eventRecordJson(EVENT)), {
    Records: [
      {
        eventVersion: "2.1",
        eventSource: "aws:s3",
        awsRegion: "us-east-1",
        eventTime: "2026-11-26T01:02:03.004Z",
        eventName: "ObjectCreated:Put",
        userIdentity: { principalId: "ann" },
        requestParameters: { sourceIPAddress: "10.0.0.1" },
        responseElements: { "x-amz-request-id": "4442587FB7D0A2F9" },
        s3: {
          s3SchemaVersion: "1.0",
          configurationId: "images",
          bucket: { name: "photos", ownerIdentity: { principalId: "ann" }, arn: "arn:aws:s3:::photos" },
          object: {
            key: "Happy+Face%2B%C3%BC/1.jpg",
            size: 1024,
            eTag: "d41d8cd98f00b204e9800998ecf8427e",
            versionId: "v1",
            sequencer: "00000000000000000000000000000001",
          },
        },
      },
    ],
  });
});

test("event record: a removal has neither size nor ETag; newer kinds have version 2.3", () => {
  const read = (more: object): { eventVersion: string; s3: { object: object } } =>
    (JSON.parse(eventRecordJson({ ...EVENT, ...more })) as { Records: [{ eventVersion: string; s3: { object: object } }] }).Records[0];
  const removed = read({ name: "ObjectRemoved:Delete", object: undefined, versionId: undefined });
  assert.deepEqual(Object.keys(removed.s3.object), ["key", "sequencer"]);
  assert.deepEqual([removed.eventVersion, read({ name: "LifecycleExpiration:Delete" }).eventVersion], ["2.1", "2.3"]);
});

test("event record: the test event: as S3's, without a HostId", () => {
  assert.deepEqual(JSON.parse(testEventJson({ bucket: "photos", requestId: "R", atMs: EVENT.atMs })), {
    Service: "Amazon S3",
    Event: "s3:TestEvent",
    Time: "2026-11-26T01:02:03.004Z",
    Bucket: "photos",
    RequestId: "R",
  });
});
