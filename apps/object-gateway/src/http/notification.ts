// Event rules of a bucket: put and read. Their targets are those of the gateway's configuration that belong to the bucket's owner.
import { EVENT_RULES_BYTES_MAX, EVENTS_DOCUMENT, eventRulesOf, overlap, type EventRule } from "@concord/objects";
import type { MessageSink, SinkAnswer, SinkMessage } from "@concord/ports";
import { notificationXml, readNotification, S3Error, testEventJson, type NotificationRule } from "@concord/s3";
import { EVENT_TEST_MS } from "../limits.ts";
import { readDocument } from "./bodies.ts";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { empty, xml } from "./responses.ts";

/** arn:aws:sqs or arn:aws:sns, region, tenant, name of the target. */
const ARN = /^arn:(?:aws|concord):(sqs|sns):([a-z0-9-]*):([A-Za-z0-9_.-]+):([A-Za-z0-9_.-]+)$/;
const SERVICES = { queue: "sqs", topic: "sns" } as const;

/** Without rules an empty document, as S3. */
export const getBucketNotificationConfiguration: Operation = async ({ bucket }, { store }) =>
  xml(notificationXml(eventRulesOf((await store.headBucket(bucket)).settings.documents[EVENTS_DOCUMENT])));

/**
 * Replaces all rules; without any the bucket has none. In effect for every write that commits after the answer. Each target gets s3:TestEvent before;
 * ServiceUnavailable, and nothing is changed, when one does not take it.
 */
export const putBucketNotificationConfiguration: Operation = async (call, context) => {
  const isTested = !skipsTest(call);
  const wanted = readNotification(await readDocument(call, context));
  const { tenant, settings } = await context.store.headBucket(call.bucket);
  const sinks = new Map<string, MessageSink>();
  const rules = wanted.map((rule): EventRule => {
    const { target, sink } = targetOf(rule, tenant, context);
    sinks.set(target, sink);
    return { ...rule, target };
  });
  checkOverlaps(rules);
  // Also an empty one is kept: events may still wait.
  if (rules.length === 0 && settings.documents[EVENTS_DOCUMENT] === undefined) return empty(200);
  const text = JSON.stringify(rules);
  if (new TextEncoder().encode(text).length > EVENT_RULES_BYTES_MAX)
    throw new S3Error("InvalidArgument", `the rules have more than ${EVENT_RULES_BYTES_MAX} bytes`);
  if (isTested) for (const [target, sink] of sinks) await sendTest(call, target, sink);
  await context.store.setBucketDocument({ bucket: call.bucket, name: EVENTS_DOCUMENT, text });
  return empty(200);
};

function skipsTest({ headers }: S3Call): boolean {
  const said = headers.one("x-amz-skip-destination-validation")?.toLowerCase() ?? "false";
  if (said !== "true" && said !== "false") throw new S3Error("InvalidArgument", "x-amz-skip-destination-validation is true or false");
  return said === "true";
}

/** The same refusal for a target that is not there and for another tenant's. */
function targetOf(
  { arn, kind }: NotificationRule,
  owner: string,
  { region, eventSink }: Context,
): { readonly target: string; readonly sink: MessageSink } {
  const [, service, arnRegion = "", tenant = "", target = ""] = ARN.exec(arn) ?? [];
  if (service === undefined || service !== SERVICES[kind])
    throw new S3Error("InvalidArgument", "The ARN is not well formed: expected arn:aws:sqs:REGION:TENANT:NAME, of a topic arn:aws:sns:...");
  const isOurs = (arnRegion === "" || arnRegion === region) && tenant === owner;
  const sink = isOurs ? eventSink({ tenant, target }) : undefined;
  if (sink === undefined) throw new S3Error("InvalidArgument", "Unable to validate the following destination configurations");
  return { target, sink };
}

async function sendTest({ bucket, requestId, facts }: S3Call, target: string, sink: MessageSink): Promise<void> {
  const atMs = Number(facts()["aws:epochtime"]);
  const encoder = new TextEncoder();
  const value = encoder.encode(testEventJson({ bucket, requestId, atMs }));
  const message: SinkMessage = { id: `s3:test:${requestId}:${target}`, key: encoder.encode(bucket), value, timestampMs: atMs };
  let answers: readonly SinkAnswer[];
  try {
    answers = await sink.send([message], { timeoutMs: EVENT_TEST_MS });
  } catch (thrown) {
    throw notThere(thrown);
  }
  if (answers[0] !== "accepted" && answers[0] !== "duplicate") throw notThere(undefined);
}

function notThere(cause: unknown): S3Error {
  const text = "A target did not take s3:TestEvent; nothing was changed. Try again, or send x-amz-skip-destination-validation: true.";
  return new S3Error("ServiceUnavailable", text, { cause, retryAfterSeconds: 1 });
}

function checkOverlaps(rules: readonly EventRule[]): void {
  for (const [at, rule] of rules.entries()) {
    if (rules.slice(0, at).some((other) => overlap(rule, other)))
      throw new S3Error(
        "InvalidArgument",
        "Configurations overlap. Configurations on the same bucket cannot share a common event type with overlapping prefixes and suffixes.",
      );
  }
}
