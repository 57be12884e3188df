// The policy of a bucket: JSON in the language of S3. What is not known here is refused when it is put, never ignored.
import { POLICY_ENTRIES_MAX, POLICY_SLOW_CHARS_MAX, POLICY_STATEMENTS_MAX } from "../limits.ts";
import { isBucketAction, S3_ACTIONS, type S3Action } from "./actions.ts";
import { subnetOf } from "./addresses.ts";
import { actionsOfKey, conditionsHold, readConditions, type Condition, type ConditionFacts, type ExistingTags } from "./conditions.ts";
import { malformedPolicy, objectOf, parsePolicyJson, textsOf, type JsonObject } from "./policy-json.ts";
import { matchesWildcard, slowChars } from "./wildcard.ts";

/** Who asks. A tenant's access keys act for the whole tenant. */
export type Caller = { readonly kind: "anonymous" } | { readonly kind: "tenant"; readonly tenant: string };

/** `not`: everything but these. */
interface Patterns {
  readonly not: boolean;
  readonly patterns: readonly string[];
}

interface Principals {
  readonly not: boolean;
  readonly everyone: boolean;
  readonly tenants: ReadonlySet<string>;
}

export interface Statement {
  readonly effect: "Allow" | "Deny";
  readonly principals: Principals;
  readonly actions: Patterns;
  readonly resources: Patterns;
  readonly conditions: readonly Condition[];
}

export interface Policy {
  readonly statements: readonly Statement[];
  /** Some statement allows what is not fixed to tenants or addresses. */
  readonly isPublic: boolean;
}

export interface PolicyRequest {
  readonly caller: Caller;
  readonly action: S3Action;
  readonly bucket: string;
  /** Undefined: the bucket itself. */
  readonly key: string | undefined;
  readonly facts: ConditionFacts;
  readonly existingTags: ExistingTags;
}

const ARN = "arn:aws:s3:::";
const VERSIONS: readonly unknown[] = [undefined, "2008-10-17", "2012-10-17"];
const STATEMENT_FIELDS = [
  "Sid",
  "Effect",
  "Principal",
  "NotPrincipal",
  "Action",
  "NotAction",
  "Resource",
  "NotResource",
  "Condition",
] as const;

/** MalformedPolicy. A tenant that `isTenant` does not know is no principal. */
export function readPolicy(bytes: Uint8Array, bucket: string, isTenant: (name: string) => boolean): Policy {
  const policy = parsePolicyJson(bytes);
  checkFields(policy, ["Version", "Id", "Statement"]);
  if (!VERSIONS.includes(policy["Version"])) throw malformedPolicy("its Version is not known");
  if (policy["Id"] !== undefined && typeof policy["Id"] !== "string") throw malformedPolicy("its Id is no text");
  const all: unknown = policy["Statement"];
  const list = Array.isArray(all) ? (all as readonly unknown[]) : [all];
  if (list.length === 0 || list.length > POLICY_STATEMENTS_MAX)
    throw malformedPolicy(`it must have 1 to ${POLICY_STATEMENTS_MAX} statements`);
  const sids = new Set<string>();
  const statements = list.map((one) => readStatement(objectOf(one, "a statement"), bucket, isTenant, sids));
  checkCost(statements);
  return { statements, isPublic: statements.some(isPublicStatement) };
}

function readStatement(fields: JsonObject, bucket: string, isTenant: (name: string) => boolean, sids: Set<string>): Statement {
  checkFields(fields, STATEMENT_FIELDS);
  const { Sid: sid, Effect: effect, Condition: condition } = fields;
  if (sid !== undefined && (typeof sid !== "string" || sids.has(sid))) throw malformedPolicy("a Sid is no text, or there twice");
  // An empty Sid is none: several statements may have it.
  if (typeof sid === "string" && sid !== "") sids.add(sid);
  if (effect !== "Allow" && effect !== "Deny") throw malformedPolicy("an Effect is neither Allow nor Deny");
  const principals = readPrincipals(oneOf(fields, "Principal"), isTenant);
  if (effect === "Allow" && principals.not) throw malformedPolicy("NotPrincipal is known with Deny only");
  const actions = readPatterns(oneOf(fields, "Action"), "Action");
  const resources = readPatterns(oneOf(fields, "Resource"), "Resource");
  checkActions(actions, resources);
  for (const one of resources.patterns) checkResource(one, bucket);
  const conditions = condition === undefined ? [] : readConditions(condition);
  checkTagConditions(actions, conditions);
  return { effect, principals, actions, resources, conditions };
}

/** A judgement is made for each request, and for each key of a DeleteObjects. */
function checkCost(statements: readonly Statement[]): void {
  const likes = (all: readonly Condition[]): readonly string[] =>
    all.flatMap(({ operator, values }) => (operator.endsWith("Like") || operator.startsWith("Arn") ? values : []));
  const patterns = statements.flatMap(({ resources, conditions }) => [...resources.patterns, ...likes(conditions)]);
  const chars = patterns.reduce((sum, pattern) => sum + slowChars(pattern), 0);
  if (chars > POLICY_SLOW_CHARS_MAX) throw malformedPolicy(`texts with ? between two * have more than ${POLICY_SLOW_CHARS_MAX} characters`);
}

function checkFields(fields: JsonObject, known: readonly string[]): void {
  const unknown = Object.keys(fields).find((name) => !known.includes(name));
  if (unknown !== undefined) throw malformedPolicy(`the field ${unknown.slice(0, 64)} is not known here`);
}

/** Exactly one of a field and its negation. */
function oneOf(fields: JsonObject, name: string): { readonly not: boolean; readonly value: unknown } {
  const [plain, negated] = [fields[name], fields[`Not${name}`]];
  if ((plain === undefined) === (negated === undefined)) throw malformedPolicy(`a statement needs ${name} or Not${name}, not both`);
  return plain === undefined ? { not: true, value: negated } : { not: false, value: plain };
}

function readPatterns({ not, value }: { readonly not: boolean; readonly value: unknown }, what: string): Patterns {
  const patterns = textsOf(value, what);
  if (patterns.length > POLICY_ENTRIES_MAX) throw malformedPolicy(`${what} has more than ${POLICY_ENTRIES_MAX} entries`);
  if (patterns.some((one) => one.includes("${"))) throw malformedPolicy("policy variables are not known here");
  return { not, patterns };
}

function readPrincipals(
  { not, value }: { readonly not: boolean; readonly value: unknown },
  isTenant: (name: string) => boolean,
): Principals {
  if (value === "*") return { not, everyone: true, tenants: new Set() };
  const fields = objectOf(value, "Principal");
  checkFields(fields, ["AWS", "CanonicalUser"]);
  const names = Object.entries(fields).flatMap(([kind, list]) => textsOf(list, "Principal").map((name) => tenantOf(kind, name)));
  if (names.length === 0 || names.length > POLICY_ENTRIES_MAX)
    throw malformedPolicy(`Principal must have 1 to ${POLICY_ENTRIES_MAX} entries`);
  const unknown = names.find((name) => name !== "*" && !isTenant(name));
  if (unknown !== undefined) throw malformedPolicy("Invalid principal in policy: it is no tenant of this server");
  return { not, everyone: names.includes("*"), tenants: new Set(names) };
}

/** An account's ARN, or the account itself: here a tenant. */
function tenantOf(kind: string, name: string): string {
  if (kind === "CanonicalUser") return name === "*" ? "" : name;
  return /^arn:aws:iam::([A-Za-z0-9_.-]{1,64}):root$/.exec(name)?.[1] ?? name;
}

/** Each pattern means an action, and at least one of the resources is something that one of its actions is about. */
function checkActions(actions: Patterns, resources: Patterns): void {
  for (const pattern of actions.patterns) {
    const meant = S3_ACTIONS.filter((action) => matchesAction(pattern, action));
    if (meant.length === 0) throw malformedPolicy(`the action ${pattern.slice(0, 64)} is not known here`);
    if (actions.not || resources.not) continue;
    const fits = resources.patterns.some((one) => meant.some((action) => (isBucketAction(action) ? mayBeBucket(one) : mayBeObject(one))));
    if (!fits) throw malformedPolicy(`the action ${pattern.slice(0, 64)} does not apply to any resource of its statement`);
  }
}

/** A condition on tags of which an action says nothing would never hold, or always. */
function checkTagConditions({ not, patterns }: Patterns, conditions: readonly Condition[]): void {
  for (const { key } of conditions) {
    const asking = actionsOfKey(key);
    if (asking === undefined || not) continue;
    if (!patterns.every((pattern) => asking.some((action) => matchesAction(pattern, action))))
      throw malformedPolicy("Conditions do not apply to combination of actions and resources in statement");
  }
}

/**
 * MalformedPolicy: an action on the bucket whose statement names only what is in it ("arn:aws:s3:::b/*" for s3:ListBucket), which would never apply. For
 * policies that are put: those of before, which were not asked, stay readable.
 */
export function refuseIdleActions({ statements }: Policy): void {
  for (const { actions, resources } of statements) {
    const isOfObjects = !resources.not && resources.patterns.every((one) => one.includes("/"));
    if (actions.not || !isOfObjects) continue;
    const idle = actions.patterns.find((pattern) => S3_ACTIONS.filter((one) => matchesAction(pattern, one)).every(isBucketAction));
    if (idle !== undefined) throw malformedPolicy(`the action ${idle.slice(0, 64)} does not apply to any resource of its statement`);
  }
}

const mayBeBucket = (resource: string): boolean => !resource.includes("/") || resource.endsWith("*");
const mayBeObject = (resource: string): boolean => resource.includes("/") || resource.includes("*");
const matchesAction = (pattern: string, action: string): boolean => matchesWildcard(pattern.toLowerCase(), action.toLowerCase());

/** This bucket, and what is in it. */
function checkResource(resource: string, bucket: string): void {
  if (resource === "*" || resource === `${ARN}*`) return;
  const name = resource.startsWith(ARN) ? resource.slice(ARN.length) : "";
  const rest = name.startsWith(bucket) ? name.slice(bucket.length) : "-";
  if (rest !== "" && !rest.startsWith("/") && !rest.startsWith("*"))
    throw malformedPolicy(`the resource ${resource.slice(0, 64)} is not in this bucket`);
}

/** What a policy says of a request; a refusal outweighs every permission. Unknown: the object's tags decide. */
export function judgeByPolicy(policy: Policy | undefined, request: PolicyRequest): "deny" | "allow" | "silent" | "unknown" {
  const said = (policy?.statements ?? []).map((statement) => ({ effect: statement.effect, applies: applies(statement, request) }));
  const has = (effect: Statement["effect"], how: boolean | "unknown"): boolean =>
    said.some((one) => one.effect === effect && one.applies === how);
  if (has("Deny", true)) return "deny";
  if (has("Deny", "unknown")) return "unknown";
  if (has("Allow", true)) return "allow";
  return has("Allow", "unknown") ? "unknown" : "silent";
}

function applies(statement: Statement, { caller, action, bucket, key, facts, existingTags }: PolicyRequest): boolean | "unknown" {
  const resource = `${ARN}${bucket}${key === undefined ? "" : `/${key}`}`;
  return (
    isNamed(statement.principals, caller) &&
    isMeant(statement.actions, (pattern) => matchesAction(pattern, action)) &&
    isMeant(statement.resources, (pattern) => matchesWildcard(pattern, resource)) &&
    conditionsHold(statement.conditions, facts, existingTags)
  );
}

const isMeant = ({ not, patterns }: Patterns, matches: (pattern: string) => boolean): boolean => patterns.some(matches) !== not;

function isNamed({ not, everyone, tenants }: Principals, caller: Caller): boolean {
  return (everyone || (caller.kind === "tenant" && tenants.has(caller.tenant))) !== not;
}

/** S3's rule: allowed to everyone, and no condition fixes tenants or addresses. */
function isPublicStatement({ effect, principals, conditions }: Statement): boolean {
  return effect === "Allow" && principals.everyone && !conditions.some(isFixed);
}

function isFixed({ operator, quantifier, key, values, ifExists }: Condition): boolean {
  if (ifExists || quantifier === "all") return false;
  if (key === "aws:principalaccount" || key === "aws:principalarn") {
    const isLike = ["StringLike", "ArnLike", "ArnEquals"].includes(operator);
    return operator === "StringEquals" || (isLike && !values.some((one) => /[*?]/.test(one)));
  }
  if (key !== "aws:sourceip" || operator !== "IpAddress") return false;
  return values.every((one) => {
    const { prefixBits, isV6 } = subnetOf(one)!;
    return prefixBits >= (isV6 ? NARROW_V6_BITS : NARROW_V4_BITS);
  });
}

/** Ranges of addresses that are wider are as good as all, by S3's rule. */
const NARROW_V4_BITS = 8;
const NARROW_V6_BITS = 32;
