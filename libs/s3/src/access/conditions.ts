// Conditions of a policy's statement: operators and keys that are known, each with values of the key's type. Everything else is refused when
// the policy is put: a condition that is not understood must not be taken for one that holds.
import { POLICY_CONDITIONS_MAX, TAG_KEY_CHARS_MAX } from "../limits.ts";
import { TAG_TEXT } from "../tags.ts";
import { OF_EXISTING_TAGS, OF_REQUEST_TAGS, type S3Action } from "./actions.ts";
import { addressesWithin, subnetOf } from "./addresses.ts";
import { malformedPolicy, objectOf } from "./policy-json.ts";
import { matchesWildcard } from "./wildcard.ts";

type Tags = Readonly<Record<string, string>>;

/** What a request says of each key, in lower case; absent: it says nothing. Dates are milliseconds, truth is "true" or "false". */
export type ConditionFacts = Readonly<Partial<Record<keyof typeof KEYS, string>>> & {
  /** That it gives the object. */
  readonly requestTags?: Tags;
};

/** Of the object that a request is about, where its action asks for them; undefined: there are none to ask for. Unknown: the object was not read yet. */
export type ExistingTags = Tags | "unknown" | undefined;

type KeyType = "text" | "number" | "date" | "truth" | "address" | "arn";

const KEYS = {
  "aws:currenttime": "date",
  "aws:epochtime": "date",
  "aws:principalaccount": "text",
  "aws:principalarn": "arn",
  "aws:principalisawsservice": "truth",
  "aws:principaltype": "text",
  "aws:referer": "text",
  "aws:securetransport": "truth",
  "aws:sourceip": "address",
  "aws:useragent": "text",
  "aws:viaawsservice": "truth",
  "s3:authtype": "text",
  "s3:delimiter": "text",
  "s3:if-match": "text",
  "s3:if-none-match": "text",
  "s3:max-keys": "number",
  "s3:objectcreationoperation": "truth",
  "s3:object-lock-legal-hold": "text",
  "s3:object-lock-mode": "text",
  "s3:object-lock-remaining-retention-days": "number",
  "s3:object-lock-retain-until-date": "date",
  "s3:prefix": "text",
  "s3:signatureversion": "text",
  "s3:versionid": "text",
  "s3:x-amz-acl": "text",
  "s3:x-amz-content-sha256": "text",
  "s3:x-amz-copy-source": "text",
  "s3:x-amz-grant-full-control": "text",
  "s3:x-amz-grant-read": "text",
  "s3:x-amz-grant-read-acp": "text",
  "s3:x-amz-grant-write": "text",
  "s3:x-amz-grant-write-acp": "text",
  "s3:x-amz-metadata-directive": "text",
  "s3:x-amz-object-ownership": "text",
  "s3:x-amz-server-side-encryption": "text",
  "s3:x-amz-server-side-encryption-aws-kms-key-id": "text",
  "s3:x-amz-server-side-encryption-customer-algorithm": "text",
  "s3:x-amz-storage-class": "text",
} as const satisfies Record<string, KeyType>;

/** Each followed by the name of a tag, in which letters count as they are written. */
const TAG_KEYS = ["s3:existingobjecttag", "s3:requestobjecttag"] as const;
/** Has as many values as the request gives tags: every other key has one. */
const TAG_NAMES = "s3:requestobjecttagkeys";

type TagKey = (typeof TAG_KEYS)[number];
export type ConditionKey = keyof typeof KEYS | TagKey | typeof TAG_NAMES;

/** `ForAllValues:` and `ForAnyValue:` before an operator. */
type Quantifier = "one" | "all" | "any";

/** Made once, when the policy is read: whether what a request says is one of the values. */
type Match = (found: string) => boolean;
type Matching = (values: readonly string[]) => Match;
interface Operator {
  readonly types: readonly KeyType[];
  readonly negated: boolean;
  readonly matching: Matching;
}

const same: Matching = (values) => {
  const all = new Set(values);
  return (found) => all.has(found);
};
const sameLetters: Matching = (values) => {
  const all = new Set(values.map((one) => one.toLowerCase()));
  return (found) => all.has(found.toLowerCase());
};
const like: Matching = (values) => (found) => values.some((pattern) => matchesWildcard(pattern, found));
const compared =
  (compare: (found: number, wanted: number) => boolean): Matching =>
  (values) =>
  (found) =>
    values.some((wanted) => compare(Number(found), Number(wanted)));
/** Part by part, so that a star ends where its part does; the last has what follows. */
const likeArn: Matching = (values) => {
  const patterns = values.map(partsOfArn);
  return (found) => {
    const parts = partsOfArn(found);
    return patterns.some((pattern) => pattern.length === parts.length && pattern.every((part, at) => matchesWildcard(part, parts[at]!)));
  };
};
const ARN_PARTS = 6;
function partsOfArn(text: string): readonly string[] {
  const parts = text.split(":");
  return [...parts.slice(0, ARN_PARTS - 1), ...(parts.length < ARN_PARTS ? [] : [parts.slice(ARN_PARTS - 1).join(":")])];
}
const TEXTS: readonly KeyType[] = ["text", "truth", "arn"];
const ARNS: readonly KeyType[] = ["arn"];
const NUMBERS: readonly KeyType[] = ["number"];
const DATES: readonly KeyType[] = ["date"];

const positive = (types: readonly KeyType[], matching: Matching): Operator => ({ types, negated: false, matching });
const negative = (types: readonly KeyType[], matching: Matching): Operator => ({ types, negated: true, matching });

function ordered(name: string, types: readonly KeyType[]): Readonly<Record<string, Operator>> {
  return {
    [`${name}Equals`]: positive(
      types,
      compared((found, wanted) => found === wanted),
    ),
    [`${name}NotEquals`]: negative(
      types,
      compared((found, wanted) => found === wanted),
    ),
    [`${name}LessThan`]: positive(
      types,
      compared((found, wanted) => found < wanted),
    ),
    [`${name}LessThanEquals`]: positive(
      types,
      compared((found, wanted) => found <= wanted),
    ),
    [`${name}GreaterThan`]: positive(
      types,
      compared((found, wanted) => found > wanted),
    ),
    [`${name}GreaterThanEquals`]: positive(
      types,
      compared((found, wanted) => found >= wanted),
    ),
  };
}

const OPERATORS: ReadonlyMap<string, Operator> = new Map(
  Object.entries({
    StringEquals: positive(TEXTS, same),
    StringNotEquals: negative(TEXTS, same),
    StringEqualsIgnoreCase: positive(TEXTS, sameLetters),
    StringNotEqualsIgnoreCase: negative(TEXTS, sameLetters),
    StringLike: positive(TEXTS, like),
    StringNotLike: negative(TEXTS, like),
    ...ordered("Numeric", NUMBERS),
    ...ordered("Date", DATES),
    ArnEquals: positive(ARNS, likeArn),
    ArnLike: positive(ARNS, likeArn),
    ArnNotEquals: negative(ARNS, likeArn),
    ArnNotLike: negative(ARNS, likeArn),
    Bool: positive(["truth"], same),
    IpAddress: positive(["address"], addressesWithin),
    NotIpAddress: negative(["address"], addressesWithin),
  }),
);

/** One key of one operator: it holds by any of its values, or, negated, by none. */
export interface Condition {
  /** Without what stands before and after it. */
  readonly operator: string;
  readonly quantifier: Quantifier;
  readonly key: ConditionKey;
  /** Of the keys that name one. */
  readonly tag: string;
  readonly values: readonly string[];
  /** Holds when the request says nothing of the key. */
  readonly ifExists: boolean;
  /** Of what the request says of the key. */
  readonly holds: Match;
  /** Of a request that says nothing of it. */
  readonly holdsWithout: boolean;
}

/** MalformedPolicy for an operator, a key or a value that is not known. */
export function readConditions(value: unknown): readonly Condition[] {
  const conditions = Object.entries(objectOf(value, "Condition")).flatMap(([operator, keys]) =>
    Object.entries(objectOf(keys, `Condition ${operator}`)).map(([key, values]) => readCondition(operator, key, values)),
  );
  if (conditions.length > POLICY_CONDITIONS_MAX) throw malformedPolicy(`a statement has more than ${POLICY_CONDITIONS_MAX} conditions`);
  return conditions;
}

function readCondition(name: string, keyName: string, value: unknown): Condition {
  const { key, tag, type } = readKey(keyName);
  const { quantifier, operator, ifExists } = readOperator(name);
  const values = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  if (values.length === 0) throw malformedPolicy(`${keyName} has no value`);
  const read = { operator, quantifier, key, tag, ifExists };
  if (operator === "Null" && !ifExists && quantifier === "one") {
    const wanted = values.map((one) => readValue("truth", one, keyName));
    const [holds, holdsWithout] = [wanted.includes("false"), wanted.includes("true")];
    return { ...read, values: wanted, holds: () => holds, holdsWithout };
  }
  const found = OPERATORS.get(operator);
  if (found === undefined) throw malformedPolicy(`the condition operator ${name} is not known here`);
  if (!found.types.includes(type)) throw malformedPolicy(`${name} does not fit ${keyName}`);
  if (key === TAG_NAMES && quantifier === "one") throw malformedPolicy(`${keyName} needs ForAllValues: or ForAnyValue: before ${name}`);
  const wanted = values.map((one) => readValue(type, one, keyName));
  const matches = found.matching(wanted);
  const { negated } = found;
  const holds: Match = (said) => matches(said) !== negated;
  const holdsWithout = { one: negated || ifExists, all: true, any: ifExists }[quantifier];
  return { ...read, values: wanted, holds, holdsWithout };
}

function readOperator(name: string): Pick<Condition, "operator" | "quantifier" | "ifExists"> {
  const [, before, operator, after] = /^(ForAllValues:|ForAnyValue:)?(.*?)(IfExists)?$/s.exec(name)!;
  const quantifier = before === undefined ? "one" : before === "ForAllValues:" ? "all" : "any";
  return { operator: operator!, quantifier, ifExists: after !== undefined };
}

function readKey(name: string): Pick<Condition, "key" | "tag"> & { readonly type: KeyType } {
  const known = name.toLowerCase();
  if (Object.hasOwn(KEYS, known)) return { key: known as keyof typeof KEYS, tag: "", type: KEYS[known as keyof typeof KEYS] };
  if (known === TAG_NAMES) return { key: TAG_NAMES, tag: "", type: "text" };
  const key = TAG_KEYS.find((one) => known.startsWith(`${one}/`));
  const tag = key === undefined ? "" : name.slice(key.length + 1);
  if (key === undefined || tag === "" || tag.length > TAG_KEY_CHARS_MAX || !TAG_TEXT.test(tag))
    throw malformedPolicy(`the condition key ${name.slice(0, KEY_CHARS_SHOWN)} is not known here`);
  return { key, tag, type: "text" };
}

/** Of a key, in messages. */
const KEY_CHARS_SHOWN = 160;

function readValue(type: KeyType, value: unknown, key: string): string {
  if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean")
    throw malformedPolicy(`${key} has a value that is no text`);
  const text = String(value);
  if (text.includes("${")) throw malformedPolicy("policy variables are not known here");
  const read = READERS[type](text);
  if (read === undefined) throw malformedPolicy(`${text.slice(0, 64)} is no value of ${key}`);
  return read;
}

const DATE = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

const READERS: Readonly<Record<KeyType, (text: string) => string | undefined>> = {
  text: (text) => text,
  arn: (text) => text,
  number: (text) => (/^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? text : undefined),
  truth: (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() : undefined),
  date: (text) => {
    if (/^\d{1,12}$/.test(text)) return String(Number(text) * 1000);
    const ms = DATE.test(text) ? Date.parse(text) : Number.NaN;
    return Number.isNaN(ms) ? undefined : String(ms);
  },
  address: (text) => (subnetOf(text) === undefined ? undefined : text),
};

/**
 * Whether all of them hold. A key of which the request says nothing fails, unless the operator is negated or ends in IfExists, or is for all values.
 * Unknown: the object's tags decide.
 */
export function conditionsHold(conditions: readonly Condition[], facts: ConditionFacts, existing: ExistingTags): boolean | "unknown" {
  let all: boolean | "unknown" = true;
  for (const { key, tag, quantifier, holds, holdsWithout } of conditions) {
    const found = valuesOf(key, tag, facts, existing);
    if (found === "unknown") {
      all = "unknown";
      continue;
    }
    const isMet = found.length === 0 ? holdsWithout : quantifier === "all" ? found.every(holds) : found.some(holds);
    if (!isMet) return false;
  }
  return all;
}

function valuesOf(key: ConditionKey, tag: string, facts: ConditionFacts, existing: ExistingTags): readonly string[] | "unknown" {
  switch (key) {
    case "s3:existingobjecttag":
      return existing === "unknown" ? "unknown" : valueOfTag(existing, tag);
    case "s3:requestobjecttag":
      return valueOfTag(facts.requestTags, tag);
    case "s3:requestobjecttagkeys":
      return Object.keys(facts.requestTags ?? {});
    default: {
      const found = facts[key];
      return found === undefined ? [] : [found];
    }
  }
}

const valueOfTag = (tags: Tags | undefined, tag: string): readonly string[] =>
  tags !== undefined && Object.hasOwn(tags, tag) ? [tags[tag]!] : [];

/** Of keys about tags: the actions that say something of them. Undefined: of every other key. */
export function actionsOfKey(key: ConditionKey): readonly S3Action[] | undefined {
  switch (key) {
    case "s3:existingobjecttag":
      return OF_EXISTING_TAGS;
    case "s3:requestobjecttag":
    case "s3:requestobjecttagkeys":
      return OF_REQUEST_TAGS;
    default:
      return undefined;
  }
}
