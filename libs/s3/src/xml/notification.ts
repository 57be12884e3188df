// Event rules of a bucket as XML (NotificationConfiguration). What cannot happen here is refused: a rule that is stored is a rule that works.
import { S3Error } from "../errors.ts";
import { EVENT_ID_CHARS_MAX, EVENT_RULES_MAX, KEY_BYTES_MAX } from "../limits.ts";
import { malformed, type XmlElement } from "./reader.ts";
import { leaf as textOf, leaves, root } from "./requests.ts";
import { group, leaf, xmlDocument, type Xml } from "./writer.ts";

export interface NotificationRule {
  readonly id: string;
  readonly kind: "queue" | "topic";
  readonly arn: string;
  /** As @concord/objects knows them: without "s3:". */
  readonly events: readonly string[];
  readonly prefix?: string | undefined;
  readonly suffix?: string | undefined;
}

const EVENTS: ReadonlySet<string> = new Set([
  "ObjectCreated:*",
  "ObjectCreated:Put",
  "ObjectCreated:Post",
  "ObjectCreated:Copy",
  "ObjectCreated:CompleteMultipartUpload",
  "ObjectRemoved:*",
  "ObjectRemoved:Delete",
  "ObjectRemoved:DeleteMarkerCreated",
  "LifecycleExpiration:*",
  "LifecycleExpiration:Delete",
  "LifecycleExpiration:DeleteMarkerCreated",
  "ObjectTagging:*",
  "ObjectTagging:Put",
  "ObjectTagging:Delete",
  "ObjectAcl:Put",
]);

const KINDS = {
  QueueConfiguration: { kind: "queue", target: "Queue" },
  TopicConfiguration: { kind: "topic", target: "Topic" },
} as const;

const wrong = (message: string): S3Error => new S3Error("InvalidArgument", message);

/** None: the bucket has none any more. MalformedXML; InvalidArgument, as S3; NotImplemented for functions and EventBridge. */
export function readNotification(bytes: Uint8Array): readonly NotificationRule[] {
  const elements = root(bytes, "NotificationConfiguration").children;
  if (elements.length > EVENT_RULES_MAX) throw malformed(`it must have at most ${EVENT_RULES_MAX} rules`);
  const rules = elements.map(readRule);
  const ids = new Set<string>();
  for (const { id } of rules) {
    if (id !== "" && ids.has(id)) throw wrong("Same ID used for multiple configurations. IDs must be unique");
    ids.add(id);
  }
  return rules.map((rule, at) => (rule.id === "" ? { ...rule, id: freeId(ids, at + 1) } : rule));
}

/** S3 makes one, too. */
function freeId(ids: Set<string>, from: number): string {
  let number = from;
  while (ids.has(`rule-${number}`)) number += 1;
  ids.add(`rule-${number}`);
  return `rule-${number}`;
}

function readRule(element: XmlElement): NotificationRule {
  const { name, children } = element;
  if (name === "CloudFunctionConfiguration" || name === "EventBridgeConfiguration")
    throw new S3Error("NotImplemented", "Events go to queues and topics of the gateway's configuration only.");
  if (name !== "QueueConfiguration" && name !== "TopicConfiguration") throw malformed(`${name} is not known here`);
  if (element.text.trim() !== "") throw malformed("it has text between elements");
  const { kind, target } = KINDS[name];
  const once = (wanted: string): XmlElement | undefined => {
    const found = children.filter((child) => child.name === wanted);
    if (found.length > 1) throw malformed(`${wanted} is there twice`);
    return found[0];
  };
  const unknown = children.find((child) => !["Id", "Event", "Filter", target].includes(child.name));
  if (unknown !== undefined) throw malformed(`${unknown.name} is not known here`);
  const [id, arn] = ["Id", target].map((wanted) => once(wanted)).map((found) => (found === undefined ? "" : textOf(found).trim()));
  if (id!.length > EVENT_ID_CHARS_MAX) throw wrong(`an Id has at most ${EVENT_ID_CHARS_MAX} characters`);
  if (arn === "") throw malformed(`a ${name} has a ${target}`);
  const events = children.filter((child) => child.name === "Event").map(readEvent);
  if (events.length === 0) throw malformed(`a ${name} has an Event`);
  const filter = once("Filter");
  return { id: id!, kind, arn: arn!, events: [...new Set(events)], ...(filter === undefined ? {} : readFilter(filter)) };
}

function readEvent(element: XmlElement): string {
  const text = textOf(element).trim();
  const name = text.startsWith("s3:") ? text.slice(3) : "";
  if (!EVENTS.has(name)) throw wrong(`The event '${text}' is not supported for notifications`);
  return name;
}

function readFilter(filter: XmlElement): Pick<NotificationRule, "prefix" | "suffix"> {
  const [s3Key, ...others] = filter.children;
  if (s3Key?.name !== "S3Key" || others.length > 0) throw malformed("a Filter has one S3Key");
  let found: { readonly prefix?: string; readonly suffix?: string } = {};
  for (const child of s3Key.children) {
    if (child.name !== "FilterRule") throw malformed(`${child.name} is not known here`);
    const texts = leaves(child, ["Name", "Value"]);
    const name = texts.get("Name")?.trim().toLowerCase();
    const value = texts.get("Value");
    if (name !== "prefix" && name !== "suffix") throw wrong("filter rule name must be either prefix or suffix");
    if (value === undefined) throw malformed("a FilterRule has a Value");
    if (found[name] !== undefined) throw wrong("Cannot specify more than one prefix or suffix rule in a filter.");
    if (new TextEncoder().encode(value).length > KEY_BYTES_MAX) throw wrong(`filter rule value cannot exceed ${KEY_BYTES_MAX} characters`);
    found = { ...found, [name]: value };
  }
  return found;
}

export function notificationXml(rules: readonly NotificationRule[]): string {
  return xmlDocument("NotificationConfiguration", ...rules.map(ruleXml));
}

function ruleXml({ id, kind, arn, events, prefix, suffix }: NotificationRule): Xml {
  const rule = (name: string, value: string | undefined): Xml =>
    value === undefined ? "" : group("FilterRule", leaf("Name", name), leaf("Value", value));
  const filter =
    prefix === undefined && suffix === undefined ? "" : group("Filter", group("S3Key", rule("prefix", prefix), rule("suffix", suffix)));
  const [name, target] = kind === "queue" ? ["QueueConfiguration", "Queue"] : ["TopicConfiguration", "Topic"];
  return group(name!, leaf("Id", id), leaf(target!, arn), ...events.map((event) => leaf("Event", `s3:${event}`)), filter);
}
