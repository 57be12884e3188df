// Lifecycle rules of a bucket as XML. What is not carried out is refused: a rule that is stored is a rule that runs.
import { S3Error } from "../errors.ts";
import { formatIsoDate, isoTimeOf } from "../dates.ts";
import {
  KEY_BYTES_MAX,
  LIFECYCLE_BYTES_MAX,
  LIFECYCLE_DAYS_MAX,
  LIFECYCLE_ID_CHARS_MAX,
  LIFECYCLE_NEWER_MAX,
  LIFECYCLE_RULES_MAX,
  TAGS_PER_OBJECT_MAX,
} from "../limits.ts";
import { checkTags } from "../tags.ts";
import { malformed, type XmlElement } from "./reader.ts";
import { leaf as textOf, leaves, root } from "./requests.ts";
import { group, leaf, xmlDocument, type Xml } from "./writer.ts";

const DAY_MS = 86_400_000;

/** As @concord/objects carries it out. */
export interface LifecycleRule {
  readonly id: string;
  readonly isEnabled: boolean;
  readonly form: "filter" | "prefix";
  readonly prefix?: string | undefined;
  readonly tags: Readonly<Record<string, string>>;
  readonly sizeAboveBytes?: number | undefined;
  readonly sizeBelowBytes?: number | undefined;
  readonly expiration?:
    | { readonly kind: "days"; readonly days: number }
    | { readonly kind: "date"; readonly dateMs: number }
    | { readonly kind: "markers" }
    | undefined;
  readonly nonCurrent?: { readonly days: number; readonly newerKept?: number | undefined } | undefined;
  readonly abortDays?: number | undefined;
}

type Filter = Pick<LifecycleRule, "form" | "prefix" | "tags" | "sizeAboveBytes" | "sizeBelowBytes">;

const refused = (message: string): S3Error => new S3Error("InvalidRequest", message);
const wrong = (message: string): S3Error => new S3Error("InvalidArgument", message);

/** Between 1 and LIFECYCLE_RULES_MAX. MalformedXML; InvalidArgument, InvalidRequest as S3; NotImplemented for transitions. */
export function readLifecycle(bytes: Uint8Array): readonly LifecycleRule[] {
  if (bytes.length > LIFECYCLE_BYTES_MAX) throw malformed(`it is longer than ${LIFECYCLE_BYTES_MAX} bytes`);
  const elements = root(bytes, "LifecycleConfiguration").children;
  if (elements.length === 0 || elements.length > LIFECYCLE_RULES_MAX) throw malformed(`it must have 1 to ${LIFECYCLE_RULES_MAX} rules`);
  const rules = elements.map(readRule);
  const ids = new Set<string>();
  for (const { id } of rules) {
    if (id !== undefined && ids.has(id)) throw wrong("Rule ID must be unique. Found same ID for more than one rule");
    if (id !== undefined) ids.add(id);
  }
  return rules.map((rule, at) => ({ ...rule, id: rule.id ?? freeId(ids, at + 1) }));
}

/** S3 makes one, too. */
function freeId(ids: Set<string>, from: number): string {
  let number = from;
  while (ids.has(`rule-${number}`)) number += 1;
  ids.add(`rule-${number}`);
  return `rule-${number}`;
}

const RULE_ELEMENTS = [
  "ID",
  "Status",
  "Filter",
  "Prefix",
  "Expiration",
  "NoncurrentVersionExpiration",
  "AbortIncompleteMultipartUpload",
] as const;

function readRule(element: XmlElement): Omit<LifecycleRule, "id"> & { readonly id: string | undefined } {
  if (element.name !== "Rule") throw malformed(`${element.name} is not known here`);
  if (element.children.some(({ name }) => name === "Transition" || name === "NoncurrentVersionTransition"))
    throw new S3Error("NotImplemented", "Transitions to other storage classes are not implemented: there is one storage class.");
  const children = byName(element, RULE_ELEMENTS);
  const text = (name: string): string | undefined => {
    const found = children.get(name);
    return found === undefined ? undefined : textOf(found);
  };
  const [id, status] = [text("ID"), text("Status")?.trim()];
  if (id !== undefined && id.length > LIFECYCLE_ID_CHARS_MAX)
    throw wrong(`ID length should not exceed allowed limit of ${LIFECYCLE_ID_CHARS_MAX}`);
  if (status !== "Enabled" && status !== "Disabled") throw malformed("a Status must be Enabled or Disabled");
  const filter = readFilter(children.get("Filter"), text("Prefix"));
  const actions = {
    expiration: readExpiration(children.get("Expiration")),
    nonCurrent: readNonCurrent(children.get("NoncurrentVersionExpiration")),
    abortDays: readAbort(children.get("AbortIncompleteMultipartUpload")),
  };
  checkActions(filter, actions);
  return { id: id === "" ? undefined : id, isEnabled: status === "Enabled", ...filter, ...actions };
}

function checkActions(
  filter: Filter,
  { expiration, nonCurrent, abortDays }: Pick<LifecycleRule, "expiration" | "nonCurrent" | "abortDays">,
): void {
  if (expiration === undefined && nonCurrent === undefined && abortDays === undefined)
    throw refused("At least one action needs to be specified in a rule");
  const ofObjects = Object.keys(filter.tags).length > 0 || filter.sizeAboveBytes !== undefined || filter.sizeBelowBytes !== undefined;
  if (ofObjects && expiration?.kind === "markers")
    throw refused("ExpiredObjectDeleteMarker cannot be specified with a filter by tags or size: delete markers have neither");
  if (ofObjects && abortDays !== undefined)
    throw refused("AbortIncompleteMultipartUpload cannot be specified with a filter by tags or size: uploads have neither");
  if (filter.form === "prefix" && nonCurrent?.newerKept !== undefined)
    throw refused("NewerNoncurrentVersions needs a Filter, also an empty one, in place of Prefix");
}

const PREDICATES = ["Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"];

function readFilter(filter: XmlElement | undefined, prefix: string | undefined): Filter {
  if ((filter === undefined) === (prefix === undefined)) throw malformed("a rule has either a Filter or a Prefix");
  if (filter === undefined) return { form: "prefix", prefix: checkedPrefix(prefix!), tags: {} };
  if (filter.text.trim() !== "") throw malformed("it has text between elements");
  if (filter.children.length > 1)
    throw malformed("a Filter has at most one of Prefix, Tag, ObjectSizeGreaterThan, ObjectSizeLessThan, And");
  const [only] = filter.children;
  if (only?.name !== "And") return readPredicates(filter.children);
  if (only.children.length < 2) throw malformed("an And has at least two of Prefix, Tag, ObjectSizeGreaterThan, ObjectSizeLessThan");
  return readPredicates(only.children);
}

function readPredicates(elements: readonly XmlElement[]): Filter {
  const single = new Map<string, string>();
  const tags: [string, string][] = [];
  for (const element of elements) {
    if (element.name === "Tag") {
      const fields = leaves(element, ["Key", "Value"]);
      const [key, value] = [fields.get("Key"), fields.get("Value")];
      if (key === undefined || value === undefined) throw malformed("a Tag must have a Key and a Value");
      tags.push([key, value]);
    } else {
      if (!PREDICATES.includes(element.name) || single.has(element.name))
        throw malformed(`${element.name} is not known here, or there twice`);
      single.set(element.name, textOf(element));
    }
  }
  const prefix = single.get("Prefix");
  const sizeAboveBytes = readSize(single.get("ObjectSizeGreaterThan"), "ObjectSizeGreaterThan");
  const sizeBelowBytes = readSize(single.get("ObjectSizeLessThan"), "ObjectSizeLessThan");
  if (sizeAboveBytes !== undefined && sizeBelowBytes !== undefined && sizeAboveBytes >= sizeBelowBytes)
    throw refused("'ObjectSizeGreaterThan' has to be a value less than 'ObjectSizeLessThan'");
  return {
    form: "filter",
    prefix: prefix === undefined ? undefined : checkedPrefix(prefix),
    tags: checkTags(tags, TAGS_PER_OBJECT_MAX),
    sizeAboveBytes,
    sizeBelowBytes,
  };
}

function checkedPrefix(prefix: string): string {
  if (Buffer.byteLength(prefix) > KEY_BYTES_MAX) throw refused(`The maximum size of a prefix is ${KEY_BYTES_MAX}`);
  return prefix;
}

function readSize(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text.trim())) throw wrong(`'${name}' must be a number of bytes`);
  return Number(text);
}

/** Undefined: there is no expiration, or it only says that expired delete markers stay. */
function readExpiration(element: XmlElement | undefined): LifecycleRule["expiration"] {
  if (element === undefined) return undefined;
  const fields = leaves(element, ["Days", "Date", "ExpiredObjectDeleteMarker"]);
  const [days, date, said] = [fields.get("Days"), fields.get("Date"), fields.get("ExpiredObjectDeleteMarker")?.trim()];
  if (said !== undefined && said !== "true" && said !== "false") throw malformed("ExpiredObjectDeleteMarker must be true or false");
  if (fields.size !== 1) throw malformed("an Expiration has exactly one of Days, Date, ExpiredObjectDeleteMarker");
  if (days !== undefined) return { kind: "days", days: readDays(days, "'Days' for Expiration action") };
  if (date !== undefined) return { kind: "date", dateMs: readDate(date) };
  return said === "true" ? { kind: "markers" } : undefined;
}

function readDate(text: string): number {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(text.trim()) ? `${text.trim()}T00:00:00Z` : text.trim();
  const dateMs = isoTimeOf(day);
  if (dateMs === undefined) throw malformed("a Date must be in ISO 8601, in UTC");
  if (dateMs % DAY_MS !== 0 || /\.\d*[1-9]/.test(day)) throw wrong("'Date' must be at midnight GMT");
  return dateMs;
}

function readNonCurrent(element: XmlElement | undefined): LifecycleRule["nonCurrent"] {
  if (element === undefined) return undefined;
  const fields = leaves(element, ["NoncurrentDays", "NewerNoncurrentVersions"]);
  const [days, newer] = [fields.get("NoncurrentDays"), fields.get("NewerNoncurrentVersions")?.trim()];
  if (days === undefined) throw malformed("a NoncurrentVersionExpiration has NoncurrentDays");
  const newerKept = newer === undefined ? undefined : /^\d{1,3}$/.test(newer) ? Number(newer) : 0;
  if (newerKept !== undefined && (newerKept < 1 || newerKept > LIFECYCLE_NEWER_MAX))
    throw wrong(`'NewerNoncurrentVersions' must be 1 to ${LIFECYCLE_NEWER_MAX}`);
  return { days: readDays(days, "'NoncurrentDays' for NoncurrentVersionExpiration action"), newerKept };
}

function readAbort(element: XmlElement | undefined): number | undefined {
  if (element === undefined) return undefined;
  const days = leaves(element, ["DaysAfterInitiation"]).get("DaysAfterInitiation");
  if (days === undefined) throw malformed("an AbortIncompleteMultipartUpload has DaysAfterInitiation");
  return readDays(days, "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action");
}

function readDays(text: string, name: string): number {
  const days = /^\d{1,10}$/.test(text.trim()) ? Number(text) : 0;
  if (days < 1 || days > LIFECYCLE_DAYS_MAX) throw wrong(`${name} must be a positive integer`);
  return days;
}

/** The children, each known and there at most once. */
function byName(element: XmlElement, known: readonly string[]): ReadonlyMap<string, XmlElement> {
  if (element.text.trim() !== "") throw malformed("it has text between elements");
  const found = new Map<string, XmlElement>();
  for (const child of element.children) {
    if (!known.includes(child.name) || found.has(child.name)) throw malformed(`${child.name} is not known here, or there twice`);
    found.set(child.name, child);
  }
  return found;
}

export function lifecycleXml(rules: readonly LifecycleRule[]): string {
  return xmlDocument("LifecycleConfiguration", ...rules.map(ruleXml));
}

function ruleXml({ id, isEnabled, expiration, nonCurrent, abortDays, ...filter }: LifecycleRule): Xml {
  return group(
    "Rule",
    leaf("ID", id),
    filterXml(filter),
    leaf("Status", isEnabled ? "Enabled" : "Disabled"),
    expiration === undefined ? "" : group("Expiration", expirationXml(expiration)),
    nonCurrent === undefined
      ? ""
      : group(
          "NoncurrentVersionExpiration",
          leaf("NoncurrentDays", nonCurrent.days),
          leaf("NewerNoncurrentVersions", nonCurrent.newerKept),
        ),
    abortDays === undefined ? "" : group("AbortIncompleteMultipartUpload", leaf("DaysAfterInitiation", abortDays)),
  );
}

function filterXml({ form, prefix, tags, sizeAboveBytes, sizeBelowBytes }: Filter): Xml {
  if (form === "prefix") return leaf("Prefix", prefix);
  const predicates = [
    leaf("Prefix", prefix),
    ...Object.entries(tags).map(([key, value]) => group("Tag", leaf("Key", key), leaf("Value", value))),
    leaf("ObjectSizeGreaterThan", sizeAboveBytes),
    leaf("ObjectSizeLessThan", sizeBelowBytes),
  ].filter((one) => one !== "");
  return group("Filter", predicates.length > 1 ? group("And", ...predicates) : predicates.join(""));
}

function expirationXml(expiration: NonNullable<LifecycleRule["expiration"]>): Xml {
  if (expiration.kind === "days") return leaf("Days", expiration.days);
  if (expiration.kind === "date") return leaf("Date", formatIsoDate(expiration.dateMs));
  return leaf("ExpiredObjectDeleteMarker", true);
}
