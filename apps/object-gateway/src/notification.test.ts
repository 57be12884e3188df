// Events of buckets: rules by two generations of the official client and by raw requests, what comes out at their targets, what is refused.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import * as sdk2026 from "@aws-sdk/client-s3";
import type { MessageSink, SinkAnswer, SinkMessage } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ANN, BOB, TestGateway } from "./test/gateway.ts";
import { send, type Answer } from "./test/http-client.ts";
import { sign, type AccessKey } from "./test/signing.ts";

const SDKS = { 2026: sdk2026, 2024: sdk2024 as unknown as typeof sdk2026 } as const;
const arnOf = (tenant: string, name: string): string => `arn:aws:sqs:us-east-1:${tenant}:${name}`;

/** A dedup-worker's answers: each id once. */
class Target implements MessageSink {
  readonly out: SinkMessage[] = [];
  calls = 0;
  isAway = false;
  /** So many answers are lost, although the messages came out. */
  lost = 0;

  send(messages: readonly SinkMessage[]): Promise<readonly SinkAnswer[]> {
    this.calls += 1;
    if (this.isAway) return Promise.reject(new ConcordError("CONNECTION_LOST", "no worker", { applied: "no" }));
    const answers = messages.map((message): SinkAnswer => {
      if (this.out.some(({ id }) => id === message.id)) return "duplicate";
      this.out.push(message);
      return "accepted";
    });
    this.lost -= 1;
    if (this.lost >= 0) return Promise.reject(new ConcordError("CONNECTION_LOST", "the answer was lost", { applied: "unknown" }));
    return Promise.resolve(answers);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

interface S3Record {
  readonly eventName: string;
  readonly userIdentity: { readonly principalId: string };
  readonly requestParameters: { readonly sourceIPAddress: string };
  readonly responseElements: Readonly<Record<string, string>>;
  readonly s3: {
    readonly configurationId: string;
    readonly bucket: { readonly name: string; readonly ownerIdentity: { readonly principalId: string } };
    readonly object: {
      readonly key: string;
      readonly size?: number;
      readonly eTag?: string;
      readonly versionId?: string;
      readonly sequencer: string;
    };
  };
}

const targets = new Map<string, Target>();
const targetOf = (address: string): Target => {
  const target = targets.get(address) ?? new Target();
  targets.set(address, target);
  return target;
};
const textOf = ({ value }: SinkMessage): string => new TextDecoder().decode(value);
const recordsOf = (target: Target, bucket: string): readonly S3Record[] =>
  target.out
    .filter(({ id }) => id.startsWith(`s3:${bucket}:`))
    .map((message) => (JSON.parse(textOf(message)) as { Records: [S3Record] }).Records[0]);

const EVENT_TARGETS = [
  { name: "q", tenant: "ann", workers: ["anns:1"] },
  { name: "other", tenant: "ann", workers: ["others:1"] },
  { name: "q", tenant: "bob", workers: ["bobs:1"] },
];
const config = { eventTargets: EVENT_TARGETS, eventsPerSecond: 1_000_000 };
let gateway: TestGateway;
before(async () => {
  const openSink = (workers: readonly string[]): Target => targetOf(workers.join());
  gateway = await TestGateway.start({ config, openSink });
});
after(() => gateway.remove());
beforeEach(() => {
  for (const target of targets.values()) target.isAway = false;
});

const call = (method: string, path: string, more: { readonly key?: AccessKey; readonly query?: string; readonly body?: string } = {}) =>
  send(
    gateway.address,
    sign(
      { method, path, body: more.body ?? "", ...(more.query === undefined ? {} : { query: [[more.query, ""]] }) },
      { key: more.key ?? ANN, host: gateway.address },
    ),
  );

/** Event rows of a gateway: kind, then the tenant. */
const waiting = async (of: TestGateway): Promise<number> => (await of.contents()).filter((row) => /^[0-9a-f]*28616e6e/.test(row)).length;
const delivered = (of = gateway): Promise<void> => of.until(async () => (await waiting(of)) === 0);

const ruleXml = (more: string, arn = arnOf("ann", "q"), id = "all"): string =>
  `<QueueConfiguration><Id>${id}</Id><Queue>${arn}</Queue>${more}</QueueConfiguration>`;
const ALL_EVENTS = ["ObjectCreated:*", "ObjectRemoved:*", "ObjectTagging:*", "ObjectAcl:Put", "LifecycleExpiration:*"]
  .map((name) => `<Event>s3:${name}</Event>`)
  .join("");
const document = (...rules: readonly string[]): string =>
  `<NotificationConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${rules.join("")}</NotificationConfiguration>`;

for (const generation of ["2026", "2024"] as const) {
  describe(`events, client of ${generation}`, () => {
    const sdk = SDKS[generation];
    const clientOf = (key: AccessKey): ReturnType<TestGateway["client"]> =>
      generation === "2026" ? gateway.client(key) : gateway.client2024(key);

    test("rules: put, each target gets s3:TestEvent, read as they were put, replaced by none", async () => {
      const ann = clientOf(ANN);
      const Bucket = `rules-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      const NotificationConfiguration: sdk2026.NotificationConfiguration = {
        QueueConfigurations: [
          {
            Id: "images",
            QueueArn: arnOf("ann", "q"),
            Events: ["s3:ObjectCreated:*"],
            Filter: {
              Key: {
                FilterRules: [
                  { Name: "prefix", Value: "a b/" },
                  { Name: "suffix", Value: ".jpg" },
                ],
              },
            },
          },
          { Id: "removals", QueueArn: arnOf("ann", "other"), Events: ["s3:ObjectRemoved:Delete", "s3:LifecycleExpiration:*"] },
        ],
        TopicConfigurations: [{ Id: "tags", TopicArn: "arn:aws:sns::ann:q", Events: ["s3:ObjectTagging:*"] }],
      };
      const before = [targetOf("anns:1").out.length, targetOf("others:1").out.length];
      await ann.send(new sdk.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration }));
      const tests = [targetOf("anns:1").out.slice(before[0]), targetOf("others:1").out.slice(before[1])];
      for (const messages of tests) {
        assert.equal(messages.length, 1);
        const { Event, Bucket: about } = JSON.parse(textOf(messages[0]!)) as { Event: string; Bucket: string };
        assert.deepEqual([Event, about], ["s3:TestEvent", Bucket]);
      }
      const read = await ann.send(new sdk.GetBucketNotificationConfigurationCommand({ Bucket }));
      assert.deepEqual(
        { QueueConfigurations: read.QueueConfigurations, TopicConfigurations: read.TopicConfigurations },
        NotificationConfiguration,
      );
      await ann.send(new sdk.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: {} }));
      const { QueueConfigurations } = await ann.send(new sdk.GetBucketNotificationConfigurationCommand({ Bucket }));
      assert.equal(QueueConfigurations, undefined);
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "a b/1.jpg", Body: "x" }));
      assert.deepEqual(recordsOf(targetOf("anns:1"), Bucket), []);
    });

    test("[OGD19] [OGD22] changes: each comes out once, in S3's records, in the order of their sequencers; refused ones do not", async () => {
      const ann = clientOf(ANN);
      const Bucket = `changes-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      await ann.send(new sdk.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }));
      const QueueConfigurations: sdk2026.QueueConfiguration[] = [
        { Id: "all", QueueArn: arnOf("ann", "q"), Events: ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectTagging:*"] },
      ];
      await ann.send(new sdk.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: { QueueConfigurations } }));
      // Answers are lost: everything is sent again.
      targetOf("anns:1").lost = 2;
      const Key = "a b+c";
      const { VersionId, ETag } = await ann.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "body" }));
      await ann.send(new sdk.CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/a%20b%2Bc` }));
      await ann.send(new sdk.PutObjectTaggingCommand({ Bucket, Key, Tagging: { TagSet: [{ Key: "a", Value: "b" }] } }));
      await ann.send(new sdk.DeleteObjectTaggingCommand({ Bucket, Key }));
      const { UploadId } = await ann.send(new sdk.CreateMultipartUploadCommand({ Bucket, Key: "parts" }));
      const part = await ann.send(new sdk.UploadPartCommand({ Bucket, Key: "parts", UploadId, PartNumber: 1, Body: "part" }));
      const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: part.ETag }] };
      await ann.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key: "parts", UploadId, MultipartUpload }));
      await assert.rejects(ann.send(new sdk.PutObjectCommand({ Bucket, Key, Body: "no", IfNoneMatch: "*" })));
      const Objects = [{ Key }, { Key: "copy" }, { Key, VersionId }];
      await ann.send(new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
      await delivered();
      const records = recordsOf(targetOf("anns:1"), Bucket);
      assert.deepEqual(
        records.map(({ eventName, s3 }) => `${eventName} ${s3.object.key}`).sort(),
        [
          "ObjectCreated:CompleteMultipartUpload parts",
          "ObjectCreated:Copy copy",
          "ObjectCreated:Put a+b%2Bc",
          "ObjectRemoved:Delete a+b%2Bc",
          "ObjectRemoved:DeleteMarkerCreated a+b%2Bc",
          "ObjectRemoved:DeleteMarkerCreated copy",
          "ObjectTagging:Delete a+b%2Bc",
          "ObjectTagging:Put a+b%2Bc",
        ].sort(),
      );
      const put = records.find(({ eventName }) => eventName === "ObjectCreated:Put")!;
      assert.deepEqual([put.s3.object.size, put.s3.object.eTag, put.s3.object.versionId], [4, ETag!.replaceAll('"', ""), VersionId]);
      assert.deepEqual([put.userIdentity.principalId, put.requestParameters.sourceIPAddress], ["ann", "127.0.0.1"]);
      assert.match(put.responseElements["x-amz-request-id"]!, /^[0-9A-F]{16}$/);
      assert.deepEqual(
        [put.s3.configurationId, put.s3.bucket],
        ["all", { name: Bucket, ownerIdentity: { principalId: "ann" }, arn: `arn:aws:s3:::${Bucket}` }],
      );
      const ofKey = records.filter(({ s3 }) => s3.object.key === "a+b%2Bc" && s3.object.versionId === VersionId);
      const sequencers = ofKey.map(({ s3 }) => s3.object.sequencer);
      assert.deepEqual(sequencers, [...new Set(sequencers)].sort());
    });

    test("another tenant: may neither read nor put rules, nor name a target that is not the bucket owner's", async () => {
      const [ann, bob] = [clientOf(ANN), clientOf(BOB)];
      const Bucket = `tenants-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      const put = (QueueArn: string): sdk2026.PutBucketNotificationConfigurationCommand => {
        const QueueConfigurations: sdk2026.QueueConfiguration[] = [{ QueueArn, Events: ["s3:ObjectCreated:*"] }];
        return new sdk.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: { QueueConfigurations } });
      };
      const before = await gateway.contents();
      const calls = targetOf("bobs:1").calls;
      await assert.rejects(bob.send(put(arnOf("bob", "q"))), { name: "AccessDenied" });
      await assert.rejects(bob.send(new sdk.GetBucketNotificationConfigurationCommand({ Bucket })), { name: "AccessDenied" });
      await assert.rejects(ann.send(put(arnOf("bob", "q"))), { name: "InvalidArgument" });
      assert.deepEqual([await gateway.contents(), targetOf("bobs:1").calls], [before, calls]);
    });

    test("a target that is away: putting rules is 503 and changes nothing, unless the test event is skipped", async () => {
      const ann = clientOf(ANN);
      const Bucket = `away-${generation}`;
      await ann.send(new sdk.CreateBucketCommand({ Bucket }));
      const before = await gateway.contents();
      targetOf("anns:1").isAway = true;
      const QueueConfigurations: sdk2026.QueueConfiguration[] = [{ QueueArn: arnOf("ann", "q"), Events: ["s3:ObjectCreated:*"] }];
      const request = { Bucket, NotificationConfiguration: { QueueConfigurations } };
      await assert.rejects(ann.send(new sdk.PutBucketNotificationConfigurationCommand(request)), { name: "ServiceUnavailable" });
      assert.deepEqual(await gateway.contents(), before);
      const skipping = { ...request, SkipDestinationValidation: true };
      await ann.send(new sdk.PutBucketNotificationConfigurationCommand(skipping));
      await ann.send(new sdk.PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
      assert.deepEqual([await waiting(gateway), gateway.service.ready], [1, true]);
      targetOf("anns:1").isAway = false;
      await delivered();
      assert.deepEqual(
        recordsOf(targetOf("anns:1"), Bucket).map(({ eventName }) => eventName),
        ["ObjectCreated:Put"],
      );
    });
  });
}

describe("raw requests", () => {
  before(async () => void (await call("PUT", "/raw")));

  const put = (body: string, more: { readonly key?: AccessKey } = {}): Promise<Answer> =>
    call("PUT", "/raw", { ...more, query: "notification", body });
  const oneRule = ruleXml(ALL_EVENTS);

  for (const [name, expected, body] of [
    ["an unknown element", "400 MalformedXML", document("<PigeonConfiguration/>")],
    ["an unknown field of a rule", "400 MalformedXML", document(ruleXml(`${ALL_EVENTS}<Retries>1</Retries>`))],
    ["an unknown event", "400 InvalidArgument", document(ruleXml("<Event>s3:ObjectRead:Get</Event>"))],
    ["no XML", "400 MalformedXML", "{}"],
    ["no body", "400 MissingRequestBodyError", ""],
    ["a function", "501 NotImplemented", document("<CloudFunctionConfiguration/>")],
    ["no ARN", "400 InvalidArgument", document(ruleXml(ALL_EVENTS, "https://example.com/hook"))],
    ["a topic's ARN for a queue", "400 InvalidArgument", document(ruleXml(ALL_EVENTS, "arn:aws:sns:us-east-1:ann:q"))],
    ["a target that is not there", "400 InvalidArgument", document(ruleXml(ALL_EVENTS, arnOf("ann", "none")))],
    ["a target of another region", "400 InvalidArgument", document(ruleXml(ALL_EVENTS, "arn:aws:sqs:eu-west-1:ann:q"))],
    ["two rules for one event", "400 InvalidArgument", document(oneRule, ruleXml("<Event>s3:ObjectCreated:Put</Event>", undefined, "b"))],
    [
      "rules that are too long",
      "400 InvalidArgument",
      document(
        ...Array.from({ length: 20 }, (_, at) =>
          ruleXml(
            `<Event>s3:ObjectAcl:Put</Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>${at + 10}${"p".repeat(1000)}</Value></FilterRule></S3Key></Filter>`,
            undefined,
            `r${at}`,
          ),
        ),
      ),
    ],
  ] as const)
    test(`rules that are refused: ${name}: nothing is changed, nothing is sent`, async () => {
      const before = await gateway.contents();
      const { calls } = targetOf("anns:1");
      const { status, body: answer } = await put(body);
      assert.equal(`${status} ${/<Code>(\w+)</.exec(answer)?.[1]}`, expected);
      assert.deepEqual([await gateway.contents(), targetOf("anns:1").calls], [before, calls]);
    });

  test("a policy decides who may read and put rules", async () => {
    await call("PUT", "/shared");
    const ask = async (): Promise<readonly number[]> => [
      (await call("GET", "/shared", { key: BOB, query: "notification" })).status,
      (await call("PUT", "/shared", { key: BOB, query: "notification", body: document(oneRule) })).status,
    ];
    const allow = (action: string): Promise<Answer> => {
      const Statement = [{ Effect: "Allow", Principal: { AWS: "bob" }, Action: action, Resource: "arn:aws:s3:::shared" }];
      return call("PUT", "/shared", { query: "policy", body: JSON.stringify({ Version: "2012-10-17", Statement }) });
    };
    assert.deepEqual(await ask(), [403, 403]);
    assert.equal((await allow("s3:GetBucketNotification")).status, 204);
    assert.deepEqual(await ask(), [200, 403]);
    assert.equal((await allow("s3:PutBucketNotification")).status, 204);
    assert.deepEqual(await ask(), [403, 200]);
    const { body } = await call("GET", "/shared", { query: "notification" });
    assert.equal(body.slice(body.indexOf("<Queue")), `${oneRule}</NotificationConfiguration>`);
  });
});

test("[OGD20] as many bytes of events wait as may: writes that make one are 503 SlowDown, leave nothing, and go on when the target returns", async () => {
  const targetOf = new Target();
  const bounded = await TestGateway.start({ config: { ...config, eventBytesMax: 500 }, openSink: () => targetOf });
  try {
    const ann = bounded.client(ANN);
    const Bucket = "bounded";
    await ann.send(new sdk2026.CreateBucketCommand({ Bucket }));
    const QueueConfigurations: sdk2026.QueueConfiguration[] = [
      { QueueArn: arnOf("ann", "q"), Events: ["s3:ObjectCreated:*"], Filter: { Key: { FilterRules: [{ Name: "prefix", Value: "k" }] } } },
    ];
    await ann.send(new sdk2026.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: { QueueConfigurations } }));
    targetOf.isAway = true;
    const put = (Key: string): Promise<unknown> => ann.send(new sdk2026.PutObjectCommand({ Bucket, Key, Body: "x" }));
    let before: readonly string[] = [];
    let made = 0;
    await assert.rejects(
      async () => {
        for (; ; made += 1) {
          before = await bounded.contents();
          await put(`k${made}`);
        }
      },
      { name: "SlowDown" },
    );
    assert.deepEqual([await bounded.contents(), made > 0], [before, true]);
    await put("not told");
    targetOf.isAway = false;
    await delivered(bounded);
    await bounded.until(() =>
      put("k").then(
        () => true,
        () => false,
      ),
    );
    await delivered(bounded);
    assert.equal(recordsOf(targetOf, Bucket).length, made + 1);
  } finally {
    await bounded.remove();
  }
});

test("[OGD20] events outlive their bucket and a restart of the gateway", async () => {
  const Bucket = "gone";
  const ann = gateway.client(ANN);
  await ann.send(new sdk2026.CreateBucketCommand({ Bucket }));
  const QueueConfigurations: sdk2026.QueueConfiguration[] = [{ QueueArn: arnOf("ann", "q"), Events: ["s3:ObjectRemoved:*"] }];
  await ann.send(new sdk2026.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: { QueueConfigurations } }));
  await ann.send(new sdk2026.PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
  targetOf("anns:1").isAway = true;
  await ann.send(new sdk2026.DeleteObjectCommand({ Bucket, Key: "k" }));
  await ann.send(new sdk2026.DeleteBucketCommand({ Bucket }));
  await gateway.stop();
  targetOf("anns:1").isAway = false;
  await gateway.start();
  await delivered();
  assert.deepEqual(
    recordsOf(targetOf("anns:1"), Bucket).map(({ eventName }) => eventName),
    ["ObjectRemoved:Delete"],
  );
});
