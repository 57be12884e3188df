// Conditions of a policy's statement: operators and keys that are known, each with values of the key's type. Everything else is refused when
// the policy is put: a condition that is not understood must not be taken for one that holds.
import { POLICY_CONDITIONS_MAX } from "../limits.ts";
import { addressesWithin, subnetOf } from "./addresses.ts";
import { malformedPolicy, objectOf } from "./policy-json.ts";
import { matchesWildcard } from "./wildcard.ts";

/** What a request says of each key, in lower case; absent: it says nothing. Dates are milliseconds, truth is "true" or "false". */
export type ConditionFacts = Readonly<Partial<Record<ConditionKey, string>>>;

type KeyType = "text" | "number" | "date" | "truth" | "address";

const KEYS = {
  "aws:currenttime": "date",
  "aws:epochtime": "date",
  "aws:principalaccount": "text",
  "aws:referer": "text",
  "aws:securetransport": "truth",
  "aws:sourceip": "address",
  "aws:useragent": "text",
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

export type ConditionKey = keyof typeof KEYS;

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
const TEXTS: readonly KeyType[] = ["text", "truth"];
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
    Bool: positive(["truth"], same),
    IpAddress: positive(["address"], addressesWithin),
    NotIpAddress: negative(["address"], addressesWithin),
  }),
);

/** One key of one operator: it holds by any of its values, or, negated, by none. */
export interface Condition {
  readonly operator: string;
  readonly key: ConditionKey;
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
  const key = keyName.toLowerCase();
  if (!Object.hasOwn(KEYS, key)) throw malformedPolicy(`the condition key ${keyName} is not known here`);
  const known = key as ConditionKey;
  const ifExists = name.endsWith("IfExists");
  const operator = ifExists ? name.slice(0, -"IfExists".length) : name;
  const values = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  if (values.length === 0) throw malformedPolicy(`${keyName} has no value`);
  if (operator === "Null" && !ifExists) {
    const wanted = values.map((one) => readValue("truth", one, keyName));
    const [holds, holdsWithout] = [wanted.includes("false"), wanted.includes("true")];
    return { operator, key: known, ifExists, values: wanted, holds: () => holds, holdsWithout };
  }
  const found = OPERATORS.get(operator);
  if (found === undefined) throw malformedPolicy(`the condition operator ${name} is not known here`);
  const type = KEYS[known];
  if (!found.types.includes(type)) throw malformedPolicy(`${name} does not fit ${keyName}`);
  const wanted = values.map((one) => readValue(type, one, keyName));
  const matches = found.matching(wanted);
  const { negated } = found;
  const holds: Match = (said) => matches(said) !== negated;
  return { operator, key: known, ifExists, values: wanted, holds, holdsWithout: negated || ifExists };
}

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
  number: (text) => (/^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? text : undefined),
  truth: (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() : undefined),
  date: (text) => {
    if (/^\d{1,12}$/.test(text)) return String(Number(text) * 1000);
    const ms = DATE.test(text) ? Date.parse(text) : Number.NaN;
    return Number.isNaN(ms) ? undefined : String(ms);
  },
  address: (text) => (subnetOf(text) === undefined ? undefined : text),
};

/** All of them hold. A key of which the request says nothing fails, unless the operator is negated or ends in IfExists. */
export function conditionsHold(conditions: readonly Condition[], facts: ConditionFacts): boolean {
  return conditions.every(({ key, holds, holdsWithout }) => {
    const found = facts[key];
    return found === undefined ? holdsWithout : holds(found);
  });
}
