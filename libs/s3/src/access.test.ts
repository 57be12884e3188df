// Who may do what: the table of the README, a test per row; then the language of policies, and what is refused of it.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { BlockList, isIPv6 } from "node:net";
import { matchesWildcard } from "./access/wildcard.ts";
import {
  addressesWithin,
  authorize,
  clientAddress,
  readPolicy,
  refuseIdleActions,
  S3Error,
  type AccessRequest,
  type BucketAccess,
  type Caller,
  type ConditionFacts,
  type Grant,
  type Policy,
  type S3Action,
} from "./index.ts";
import { POLICY_BYTES_MAX, POLICY_CONDITIONS_MAX, POLICY_ENTRIES_MAX, POLICY_SLOW_CHARS_MAX, POLICY_STATEMENTS_MAX } from "./limits.ts";

const TENANTS: readonly string[] = ["ann", "bob", "eve"];
const ANN: Caller = { kind: "tenant", tenant: "ann" };
const BOB: Caller = { kind: "tenant", tenant: "bob" };
const ANYONE: Caller = { kind: "anonymous" };
const OPEN = { blockPublicAcls: false, ignorePublicAcls: false, blockPublicPolicy: false, restrictPublicBuckets: false };

const full = (id: string): Grant => ({ grantee: { kind: "tenant", id }, permission: "FULL_CONTROL" });

type Json = Readonly<Record<string, unknown>>;
const ALLOW: Json = { Effect: "Allow", Principal: "*", Action: "s3:GetObject", Resource: "arn:aws:s3:::photos/*" };
const ALLOW_BOB: Json = { ...ALLOW, Principal: { AWS: "arn:aws:iam::bob:root" } };
const DENY: Json = { ...ALLOW, Effect: "Deny" };

const textOf = (...statements: readonly Json[]): string => JSON.stringify({ Version: "2012-10-17", Statement: statements });
const read = (text: string): Policy => readPolicy(new TextEncoder().encode(text), "photos", (name) => TENANTS.includes(name));
const policyOf = (...statements: readonly Json[]): Policy => read(textOf(...statements));
const refusal = (text: string): string => {
  try {
    read(text);
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error && thrown.code === "MalformedPolicy", String(thrown));
    return thrown.message;
  }
  return "accepted";
};

function decided(access: Partial<BucketAccess>, request: Partial<AccessRequest>): string {
  const standard = { ownership: "BucketOwnerEnforced", grants: [full("ann")], block: OPEN, publicAccess: "possible" } as const;
  const bucket = { bucket: "photos", owner: "ann", policy: undefined, ...standard, ...access };
  const { kind, by } = authorize(bucket, { caller: BOB, action: "s3:GetObject", key: "k", facts: {}, ...request });
  return `${kind} by ${by}`;
}

describe("authorize", () => {
  const restricted = { ...OPEN, restrictPublicBuckets: true };
  const lockedOut = policyOf({ ...DENY, Action: "s3:*", Resource: ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"] });
  const rows: readonly (readonly [name: string, access: Partial<BucketAccess>, request: Partial<AccessRequest>, expected: string])[] = [
    [
      "the owner, refused everything, repairs the policy",
      { policy: lockedOut },
      { caller: ANN, action: "s3:DeleteBucketPolicy", key: undefined },
      "allowed by owner",
    ],
    ["another than the owner: no repair", { policy: lockedOut }, { action: "s3:DeleteBucketPolicy", key: undefined }, "denied by policy"],
    ["refused and allowed by the policy", { policy: policyOf(ALLOW, DENY) }, {}, "denied by policy"],
    ["the owner, refused by the policy", { policy: policyOf(DENY) }, { caller: ANN }, "denied by policy"],
    ["the owner, of whom the policy says nothing", {}, { caller: ANN }, "allowed by owner"],
    [
      "anonymous, allowed, on a gateway without public access",
      { policy: policyOf(ALLOW), publicAccess: "refused" },
      { caller: ANYONE },
      "denied by gateway",
    ],
    [
      "a tenant, by a public policy, on a gateway without public access",
      { policy: policyOf(ALLOW), publicAccess: "refused" },
      {},
      "denied by gateway",
    ],
    [
      "a tenant, by a policy that names it, on a gateway without public access",
      { policy: policyOf(ALLOW_BOB), publicAccess: "refused" },
      {},
      "allowed by policy",
    ],
    [
      "anonymous, by a public policy, public buckets restricted",
      { policy: policyOf(ALLOW), block: restricted },
      { caller: ANYONE },
      "denied by public access block",
    ],
    [
      "a tenant that a public policy names, public buckets restricted",
      { policy: policyOf(ALLOW, ALLOW_BOB), block: restricted },
      {},
      "denied by public access block",
    ],
    [
      "a tenant, by a policy that is not public, public buckets restricted",
      { policy: policyOf(ALLOW_BOB), block: restricted },
      {},
      "allowed by policy",
    ],
    ["the owner, public buckets restricted", { policy: policyOf(ALLOW), block: restricted }, { caller: ANN }, "allowed by owner"],
    ["anonymous, allowed by the policy", { policy: policyOf(ALLOW) }, { caller: ANYONE }, "allowed by policy"],
    ["a tenant that the policy names", { policy: policyOf(ALLOW_BOB) }, {}, "allowed by policy"],
    [
      "a tenant that the policy does not name",
      { policy: policyOf(ALLOW_BOB) },
      { caller: { kind: "tenant", tenant: "eve" } },
      "denied by default",
    ],
    ["anonymous, not named", { policy: policyOf(ALLOW_BOB) }, { caller: ANYONE }, "denied by default"],
    ["another action than that of the policy", { policy: policyOf(ALLOW) }, { action: "s3:PutObject" }, "denied by default"],
    ["no policy", {}, {}, "denied by default"],
  ];
  for (const [name, access, request, expected] of rows)
    test(`${name}: ${expected}`, () => assert.equal(decided(access, request), expected));
});

describe("policy: what a statement is about", () => {
  const allows = (statement: Json, action: S3Action, key: string | undefined, caller: Caller = BOB): boolean =>
    decided({ policy: policyOf({ ...ALLOW, ...statement }) }, { action, key, caller }) === "allowed by policy";

  test("actions: any case, wildcards, all but some", () => {
    assert.equal(allows({ Action: "S3:getobject" }, "s3:GetObject", "k"), true);
    assert.equal(allows({ Action: ["s3:Get*"] }, "s3:GetObjectTagging", "k"), true);
    assert.equal(allows({ Action: "s3:GetObjec?" }, "s3:GetObject", "k"), true);
    assert.equal(allows({ Action: "s3:GetObject" }, "s3:GetObjectVersion", "k"), false, "versions have actions of their own");
    assert.equal(allows({ Action: undefined, NotAction: "s3:Delete*" }, "s3:GetObject", "k"), true);
    assert.equal(allows({ Action: undefined, NotAction: "s3:Delete*" }, "s3:DeleteObject", "k"), false);
  });

  test("resources: keys by prefix, the bucket apart from what is in it", () => {
    assert.equal(allows({ Resource: "arn:aws:s3:::photos/a/*" }, "s3:GetObject", "a/b/c"), true);
    assert.equal(allows({ Resource: "arn:aws:s3:::photos/a/*" }, "s3:GetObject", "ab"), false);
    assert.equal(allows({ Resource: "arn:aws:s3:::photos/*.jpg" }, "s3:GetObject", "x/y.jpg"), true);
    const list = { Action: "s3:ListBucket", Resource: "arn:aws:s3:::photos" };
    assert.equal(allows(list, "s3:ListBucket", undefined), true);
    assert.equal(allows({ Action: "s3:*", Resource: "arn:aws:s3:::photos" }, "s3:GetObject", "k"), false);
    assert.equal(
      allows(
        { Action: undefined, NotAction: "s3:PutObject", Resource: undefined, NotResource: "arn:aws:s3:::photos/private/*" },
        "s3:GetObject",
        "private/k",
      ),
      false,
    );
    assert.equal(allows({ Resource: undefined, NotResource: "arn:aws:s3:::photos/private/*" }, "s3:GetObject", "k"), true);
  });

  test("principals: accounts in every form, all but some only in refusals", () => {
    for (const Principal of ["*", { AWS: "*" }, { AWS: "bob" }, { AWS: ["eve", "arn:aws:iam::bob:root"] }, { CanonicalUser: "bob" }])
      assert.equal(allows({ Principal }, "s3:GetObject", "k"), true, JSON.stringify(Principal));
    assert.equal(allows({ Principal: { AWS: "bob" } }, "s3:GetObject", "k", ANYONE), false);
    const { Principal: _, ...denied } = DENY;
    const policy = policyOf(ALLOW, { ...denied, NotPrincipal: { AWS: "bob" } });
    assert.equal(decided({ policy }, {}), "allowed by policy");
    assert.equal(decided({ policy }, { caller: ANYONE }), "denied by policy");
  });
});

describe("policy: conditions", () => {
  const holds = (Condition: Json, facts: ConditionFacts): boolean =>
    decided({ policy: policyOf({ ...ALLOW, Condition }) }, { facts }) === "allowed by policy";
  const rows: readonly (readonly [condition: Json, facts: ConditionFacts, expected: boolean])[] = [
    [{ StringEquals: { "s3:prefix": ["", "a/"] } }, { "s3:prefix": "a/" }, true],
    [{ StringEquals: { "s3:prefix": ["", "a/"] } }, { "s3:prefix": "" }, true],
    [{ StringEquals: { "s3:prefix": "a/" } }, { "s3:prefix": "A/" }, false],
    [{ StringEquals: { "s3:prefix": "a/" } }, {}, false],
    [{ StringEqualsIfExists: { "s3:prefix": "a/" } }, {}, true],
    [{ StringEqualsIfExists: { "s3:prefix": "a/" } }, { "s3:prefix": "b" }, false],
    [{ StringNotEquals: { "s3:prefix": ["a", "b"] } }, { "s3:prefix": "b" }, false],
    [{ StringNotEquals: { "s3:prefix": ["a", "b"] } }, { "s3:prefix": "c" }, true],
    [{ StringNotEquals: { "s3:prefix": "a" } }, {}, true],
    [{ StringEqualsIgnoreCase: { "S3:Prefix": "A" } }, { "s3:prefix": "a" }, true],
    [{ StringNotEqualsIgnoreCase: { "s3:prefix": "A" } }, { "s3:prefix": "a" }, false],
    [{ StringLike: { "aws:Referer": ["https://a.example/*"] } }, { "aws:referer": "https://a.example/x" }, true],
    [{ StringLike: { "aws:Referer": "https://a.example/*" } }, { "aws:referer": "https://b.example/" }, false],
    [{ StringNotLike: { "aws:UserAgent": "bot*" } }, { "aws:useragent": "bot 1" }, false],
    [{ NumericLessThanEquals: { "s3:max-keys": "10" } }, { "s3:max-keys": "10" }, true],
    [{ NumericLessThan: { "s3:max-keys": 10 } }, { "s3:max-keys": "10" }, false],
    [{ NumericGreaterThan: { "s3:max-keys": "9" } }, { "s3:max-keys": "10" }, true],
    [{ NumericEquals: { "s3:max-keys": "10.0" } }, { "s3:max-keys": "10" }, true],
    [{ NumericNotEquals: { "s3:max-keys": "10" } }, { "s3:max-keys": "10" }, false],
    [{ NumericEquals: { "s3:max-keys": "10" } }, { "s3:max-keys": "ten" }, false],
    [{ DateLessThan: { "aws:CurrentTime": "2026-01-01T00:00:00Z" } }, { "aws:currenttime": String(Date.UTC(2025, 11, 31)) }, true],
    [{ DateGreaterThanEquals: { "aws:EpochTime": "1767225600" } }, { "aws:epochtime": String(Date.UTC(2026, 0, 1)) }, true],
    [{ Bool: { "aws:SecureTransport": "false" } }, { "aws:securetransport": "false" }, true],
    [{ Bool: { "aws:SecureTransport": true } }, { "aws:securetransport": "false" }, false],
    [{ IpAddress: { "aws:SourceIp": ["10.0.0.0/8", "2001:db8::/32"] } }, { "aws:sourceip": "10.9.8.7" }, true],
    [{ IpAddress: { "aws:SourceIp": ["10.0.0.0/8", "2001:db8::/32"] } }, { "aws:sourceip": "2001:db8::1" }, true],
    [{ IpAddress: { "aws:SourceIp": "10.0.0.0/8" } }, { "aws:sourceip": "11.0.0.1" }, false],
    [{ IpAddress: { "aws:SourceIp": "10.0.0.0/8" } }, {}, false],
    [{ NotIpAddress: { "aws:SourceIp": "10.0.0.1" } }, { "aws:sourceip": "10.0.0.1" }, false],
    [{ NotIpAddress: { "aws:SourceIp": "10.0.0.1" } }, {}, true],
    [{ Null: { "s3:x-amz-server-side-encryption": "true" } }, {}, true],
    [{ Null: { "s3:x-amz-server-side-encryption": "true" } }, { "s3:x-amz-server-side-encryption": "AES256" }, false],
    [{ Null: { "s3:prefix": false } }, { "s3:prefix": "" }, true],
    [{ StringEquals: { "s3:prefix": "a", "s3:delimiter": "/" } }, { "s3:prefix": "a" }, false],
    [{ ArnEquals: { "aws:PrincipalArn": "arn:aws:iam::bob:root" } }, { "aws:principalarn": "arn:aws:iam::bob:root" }, true],
    [{ ArnLike: { "aws:PrincipalArn": "arn:aws:iam::b*:root" } }, { "aws:principalarn": "arn:aws:iam::bob:root" }, true],
    [{ ArnLike: { "aws:PrincipalArn": "arn:aws:*:root" } }, { "aws:principalarn": "arn:aws:iam::bob:root" }, false],
    [{ ArnNotLike: { "aws:PrincipalArn": "arn:aws:iam::b*:root" } }, { "aws:principalarn": "arn:aws:iam::bob:root" }, false],
    [{ StringEquals: { "aws:PrincipalType": "Anonymous" } }, { "aws:principaltype": "Account" }, false],
    [{ Bool: { "aws:PrincipalIsAWSService": "false", "aws:ViaAWSService": "false" } }, { "aws:principalisawsservice": "false" }, false],
    [{ ArnNotEquals: { "aws:PrincipalArn": "arn:aws:iam::ann:root" } }, {}, true],
    [{ StringLike: { "aws:PrincipalArn": "arn:aws:*:root" } }, { "aws:principalarn": "arn:aws:iam::bob:root" }, true],
    [{ "ForAnyValue:StringEquals": { "s3:prefix": ["a", "b"] } }, { "s3:prefix": "b" }, true],
    [{ "ForAnyValue:StringEquals": { "s3:prefix": "a" } }, {}, false],
    [{ "ForAnyValue:StringNotEquals": { "s3:prefix": "a" } }, {}, false],
    [{ "ForAnyValue:StringEqualsIfExists": { "s3:prefix": "a" } }, {}, true],
    [{ "ForAllValues:StringEquals": { "s3:prefix": "a" } }, {}, true],
    [{ "ForAllValues:StringEquals": { "s3:prefix": "a" } }, { "s3:prefix": "b" }, false],
    [
      { StringEquals: { "s3:prefix": "a" }, Bool: { "aws:SecureTransport": "true" } },
      { "s3:prefix": "a", "aws:securetransport": "true" },
      true,
    ],
  ];
  for (const [condition, facts, expected] of rows)
    test(`${JSON.stringify(condition)} of ${JSON.stringify(facts)}: ${String(expected)}`, () =>
      assert.equal(holds(condition, facts), expected));
});

describe("policy: conditions on tags", () => {
  type Tags = Readonly<Record<string, string>>;
  const put = (Condition: Json, requestTags: Tags): string =>
    decided({ policy: policyOf({ ...ALLOW, Action: "s3:PutObject", Condition }) }, { action: "s3:PutObject", facts: { requestTags } });
  const given: readonly (readonly [condition: Json, tags: Tags, expected: boolean])[] = [
    [{ StringEquals: { "s3:RequestObjectTag/team": ["red", "blue"] } }, { team: "blue", a: "b" }, true],
    [{ StringEquals: { "s3:RequestObjectTag/team": "red" } }, { team: "blue" }, false],
    [{ StringEquals: { "s3:RequestObjectTag/team": "red" } }, { Team: "red" }, false],
    [{ StringEquals: { "S3:requestObjectTag/team": "red" } }, { team: "red" }, true],
    [{ Null: { "s3:RequestObjectTag/constructor": "true" } }, {}, true],
    [{ Null: { "s3:RequestObjectTag/team": "false" } }, { team: "" }, true],
    [{ Null: { "s3:RequestObjectTagKeys": "true" } }, {}, true],
    [{ Null: { "s3:RequestObjectTagKeys": "true" } }, { a: "b" }, false],
    [{ "ForAllValues:StringEquals": { "s3:RequestObjectTagKeys": ["a", "b"] } }, { a: "1" }, true],
    [{ "ForAllValues:StringEquals": { "s3:RequestObjectTagKeys": ["a", "b"] } }, { a: "1", c: "1" }, false],
    [{ "ForAllValues:StringNotEquals": { "s3:RequestObjectTagKeys": ["a", "b"] } }, { c: "1", b: "1" }, false],
    [{ "ForAllValues:StringEquals": { "s3:RequestObjectTagKeys": "a" } }, {}, true],
    [{ "ForAnyValue:StringLike": { "s3:RequestObjectTagKeys": ["x*", "a"] } }, { c: "1", xy: "1" }, true],
    [{ "ForAnyValue:StringLike": { "s3:RequestObjectTagKeys": "x*" } }, { c: "1" }, false],
    [{ "ForAnyValue:StringLike": { "s3:RequestObjectTagKeys": "x*" } }, {}, false],
  ];
  for (const [condition, tags, expected] of given)
    test(`${JSON.stringify(condition)}, given ${JSON.stringify(tags)}: ${String(expected)}`, () =>
      assert.equal(put(condition, tags), expected ? "allowed by policy" : "denied by default"));

  const Condition = { StringEquals: { "s3:ExistingObjectTag/class": "open" } };
  const tagged = (tags: Tags): Partial<AccessRequest> => ({ object: { kind: "there", acl: undefined, tags } });
  const everything = { Action: "s3:*", Resource: ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"] };
  const unless = { ...DENY, ...everything, Condition: { StringNotEquals: { "s3:ExistingObjectTag/class": "open" } } };
  const rows: readonly (readonly [name: string, statements: readonly Json[], request: Partial<AccessRequest>, expected: string])[] = [
    ["an object that is not known yet", [{ ...ALLOW, Condition }], {}, "undecided by object"],
    ["an object that is not known yet, allowed whatever it is", [{ ...ALLOW, Condition }, ALLOW], {}, "allowed by policy"],
    ["an object that is not known yet, refused whatever it is", [{ ...ALLOW, Condition }, DENY], {}, "denied by policy"],
    ["an object that is not known yet, perhaps refused", [ALLOW, { ...DENY, Condition }], {}, "undecided by object"],
    [
      "an object that is not known yet, another condition fails",
      [{ ...ALLOW, Condition: { ...Condition, StringLike: { "s3:prefix": "a" } } }],
      {},
      "denied by default",
    ],
    ["its tag is that", [{ ...ALLOW, Condition }], tagged({ class: "open" }), "allowed by policy"],
    ["its tag is another", [{ ...ALLOW, Condition }], tagged({ class: "secret" }), "denied by default"],
    ["there is none", [{ ...ALLOW, Condition }], { object: { kind: "absent" } }, "denied by default"],
    ["refused by its tag, also its owner", [{ ...DENY, Condition }], { caller: ANN, ...tagged({ class: "open" }) }, "denied by policy"],
    ["its owner, its tag is another", [{ ...DENY, Condition }], { caller: ANN, ...tagged({}) }, "allowed by owner"],
    [
      "of an action that tags say nothing of: as if there were none",
      [unless],
      { caller: ANN, action: "s3:DeleteObject" },
      "denied by policy",
    ],
  ];
  for (const [name, statements, request, expected] of rows)
    test(name, () => assert.equal(decided({ policy: policyOf(...statements) }, request), expected));
});

describe("policy: refused when it is put", () => {
  const { Resource: _, ...noResource } = ALLOW;
  const putting = (Condition: Json): string => textOf({ ...ALLOW, Action: "s3:PutObject", Condition });
  const rows: readonly (readonly [name: string, text: string, message: RegExp])[] = [
    ["no JSON", "{", /no JSON/],
    ["no object", "[]", /an object/],
    ["a name twice", '{"Version":"2012-10-17","Version":"2012-10-17","Statement":[]}', /twice/],
    ["a name twice, escaped", `{"Statement":{"Effect":"Allow","\\u0045ffect":"Deny","Principal":"*"}}`, /twice/],
    ["another version", JSON.stringify({ Version: "2026-01-01", Statement: [ALLOW] }), /Version/],
    ["an unknown field", JSON.stringify({ Statement: [ALLOW], Else: 1 }), /Else/],
    ["an unknown field of a statement", textOf({ ...ALLOW, Else: 1 }), /Else/],
    ["no statement", JSON.stringify({ Statement: [] }), /1 to/],
    ["a Sid twice", textOf({ ...ALLOW, Sid: "a" }, { ...ALLOW, Sid: "a" }), /Sid/],
    ["an unknown effect", textOf({ ...ALLOW, Effect: "allow" }), /Effect/],
    ["an unknown tenant", textOf({ ...ALLOW, Principal: { AWS: "mallory" } }), /Invalid principal/],
    ["a user of an account", textOf({ ...ALLOW, Principal: { AWS: "arn:aws:iam::bob:user/x" } }), /Invalid principal/],
    ["a service", textOf({ ...ALLOW, Principal: { Service: "logging.s3.amazonaws.com" } }), /Service/],
    ["all but some allowed", textOf({ ...ALLOW, Principal: undefined, NotPrincipal: { AWS: "bob" } }), /NotPrincipal/],
    ["an unknown action", textOf({ ...ALLOW, Action: "s3:GetObjects" }), /action/],
    ["an action of another service", textOf({ ...ALLOW, Action: "sns:*" }), /action/],
    ["an action and all but some", textOf({ ...ALLOW, NotAction: "s3:PutObject" }), /not both/],
    ["no resource", textOf(noResource), /Resource/],
    ["another bucket", textOf({ ...ALLOW, Resource: "arn:aws:s3:::photosynthesis/*" }), /not in this bucket/],
    ["an action on objects, of the bucket alone", textOf({ ...ALLOW, Resource: "arn:aws:s3:::photos" }), /does not apply/],
    [
      "an action on the bucket, of objects alone",
      textOf({ ...ALLOW, Action: "s3:ListBucket", Resource: "arn:aws:s3:::photos/a" }),
      /does not apply/,
    ],
    ["a variable", textOf({ ...ALLOW, Resource: "arn:aws:s3:::photos/${aws:username}/*" }), /variables/],
    ["an unknown operator", textOf({ ...ALLOW, Condition: { StringMatches: { "s3:prefix": "a" } } }), /operator/],
    ["an unknown set", textOf({ ...ALLOW, Condition: { "ForSomeValue:StringEquals": { "s3:prefix": "a" } } }), /operator/],
    ["whether there is any of a set", textOf({ ...ALLOW, Condition: { "ForAnyValue:Null": { "s3:prefix": "true" } } }), /operator/],
    [
      "a set of which it is not said how",
      putting({ StringEquals: { "s3:RequestObjectTagKeys": "a" } }),
      /needs ForAllValues: or ForAnyValue:/,
    ],
    ["an unknown key", textOf({ ...ALLOW, Condition: { StringEquals: { "aws:PrincipalTag/a": "b" } } }), /condition key/],
    ["a tag without a name", textOf({ ...ALLOW, Condition: { StringEquals: { "s3:ExistingObjectTag/": "b" } } }), /condition key/],
    ["a tag whose name no tag has", textOf({ ...ALLOW, Condition: { StringEquals: { "s3:ExistingObjectTag/a!": "b" } } }), /condition key/],
    ["tags of the request, of a read", textOf({ ...ALLOW, Condition: { StringEquals: { "s3:RequestObjectTag/a": "b" } } }), /do not apply/],
    ["tags that are there, of a put", putting({ StringEquals: { "s3:ExistingObjectTag/a": "b" } }), /do not apply/],
    [
      "tags that are there, also of a delete",
      textOf({ ...ALLOW, Action: ["s3:GetObject", "s3:DeleteObject"], Condition: { StringEquals: { "s3:ExistingObjectTag/a": "b" } } }),
      /do not apply/,
    ],
    ["an operator that does not fit", textOf({ ...ALLOW, Condition: { StringEquals: { "aws:SourceIp": "10.0.0.1" } } }), /does not fit/],
    ["no address", textOf({ ...ALLOW, Condition: { IpAddress: { "aws:SourceIp": "10.0.0.0/33" } } }), /no value/],
    ["no date", textOf({ ...ALLOW, Condition: { DateLessThan: { "aws:CurrentTime": "tomorrow" } } }), /no value/],
    ["no number", textOf({ ...ALLOW, Condition: { NumericEquals: { "s3:max-keys": "many" } } }), /no value/],
    ["a list without values", textOf({ ...ALLOW, Condition: { StringEquals: { "s3:prefix": [] } } }), /no value/],
    ["an object as a value", textOf({ ...ALLOW, Condition: { StringEquals: { "s3:prefix": {} } } }), /no text/],
  ];
  for (const [name, text, message] of rows) test(name, () => assert.match(refusal(text), message));

  test("an action on the bucket with what is in it alone: refused when put, read where it is stored; with both, or by a wildcard, put", () => {
    const resources = ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"];
    const put = (Action: unknown, Resource: unknown): void => refuseIdleActions(read(textOf({ ...ALLOW, Action, Resource })));
    for (const action of ["s3:ListBucket", ["s3:GetObject", "s3:ListBucket"], "s3:GetBucket*"])
      assert.throws(() => put(action, resources[1]), /does not apply/);
    for (const resource of [resources, "*", "arn:aws:s3:::*", "arn:aws:s3:::photos*"]) put(["s3:GetObject", "s3:ListBucket"], resource);
    for (const action of ["s3:*", "s3:Get*", "s3:GetObject"]) put(action, resources[1]);
    assert.equal(refusal(textOf({ ...ALLOW, Action: "s3:ListBucket", Resource: resources[1] })), "accepted");
  });

  test("two statements with an empty Sid, as minio's mc writes them: accepted, since empty is none", () => {
    assert.equal(refusal(textOf({ ...ALLOW, Sid: "" }, { ...ALLOW, Sid: "" })), "accepted");
  });

  test("limits: at them accepted, above them refused", () => {
    const padded = (bytes: number): string =>
      textOf({ ...ALLOW, Sid: "" }).replace('"Sid":""', `"Sid":"${"s".repeat(bytes - textOf({ ...ALLOW, Sid: "" }).length)}"`);
    assert.equal(refusal(padded(POLICY_BYTES_MAX)), "accepted");
    assert.match(refusal(padded(POLICY_BYTES_MAX + 1)), /longer/);
    const brief = { Effect: "Deny", Principal: "*", Action: "*", Resource: "*" };
    const many = (count: number): string => JSON.stringify({ Statement: Array.from({ length: count }, () => brief) });
    assert.equal(refusal(many(POLICY_STATEMENTS_MAX)), "accepted");
    assert.match(refusal(many(POLICY_STATEMENTS_MAX + 1)), /statements/);
    const entries = (count: number): string => textOf({ ...brief, Resource: Array.from({ length: count }, () => "*") });
    assert.equal(refusal(entries(POLICY_ENTRIES_MAX)), "accepted");
    assert.match(refusal(entries(POLICY_ENTRIES_MAX + 1)), /entries/);
    const slow = (chars: number): string => textOf({ ...ALLOW, Resource: `arn:aws:s3:::photos/*?${"a".repeat(chars - 1)}*` });
    assert.equal(refusal(slow(POLICY_SLOW_CHARS_MAX)), "accepted");
    assert.match(refusal(slow(POLICY_SLOW_CHARS_MAX + 1)), /\? between/);
    const spelled = (at: number): string =>
      Array.from("principalaccount")
        .map((one, bit) => ((at >> bit) & 1 ? one.toUpperCase() : one))
        .join("");
    const conditions = (count: number): string => {
      const keys = Array.from({ length: count }, (_one, at) => [`aws:${spelled(at)}`, "bob"]);
      return textOf({ ...ALLOW, Condition: { StringEquals: Object.fromEntries(keys) } });
    };
    assert.equal(refusal(conditions(POLICY_CONDITIONS_MAX)), "accepted");
    assert.match(refusal(conditions(POLICY_CONDITIONS_MAX + 1)), /conditions/);
  });
});

test("policy: public is what allows everyone without fixed tenants or addresses", () => {
  const isPublic = (more: Json): boolean => policyOf({ ...ALLOW, ...more }).isPublic;
  const where = (range: string | readonly string[], operator = "IpAddress"): Json => ({
    Condition: { [operator]: { "aws:SourceIp": range } },
  });
  assert.equal(isPublic({}), true);
  assert.equal(isPublic({ Effect: "Deny" }), false);
  assert.equal(isPublic({ Principal: { AWS: "bob" } }), false);
  assert.equal(isPublic({ Principal: { AWS: ["bob", "*"] } }), true);
  assert.equal(isPublic({ Condition: { Bool: { "aws:SecureTransport": "true" } } }), true);
  assert.equal(isPublic({ Condition: { StringEquals: { "aws:PrincipalAccount": "bob" } } }), false);
  assert.equal(isPublic({ Condition: { StringLike: { "aws:PrincipalAccount": "b*" } } }), true);
  assert.equal(isPublic({ Condition: { "ForAllValues:StringEquals": { "aws:PrincipalAccount": "bob" } } }), true);
  assert.equal(isPublic({ Condition: { ArnEquals: { "aws:PrincipalArn": "arn:aws:iam::bob:root" } } }), false);
  assert.equal(isPublic({ Condition: { ArnEquals: { "aws:PrincipalArn": "arn:aws:iam::*:root" } } }), true);
  assert.equal(isPublic({ Condition: { StringEquals: { "s3:ExistingObjectTag/a": "b" } } }), true);
  assert.equal(isPublic({ Condition: { StringEqualsIfExists: { "aws:PrincipalAccount": "bob" } } }), true);
  for (const [range, expected] of [
    ["10.0.0.0/8", false],
    ["10.0.0.0/7", true],
    ["2001:db8::/32", false],
    ["2001:db8::/31", true],
  ] as const)
    assert.equal(isPublic(where(range)), expected, range);
  assert.equal(isPublic(where(["10.0.0.0/8", "0.0.0.0/0"])), true);
  assert.equal(isPublic(where("10.0.0.0/8", "NotIpAddress")), true);
  assert.equal(isPublic(where("10.0.0.0/8", "IpAddressIfExists")), true);
});

test("wildcards: as a regular expression that means the same, whatever pattern and text", () => {
  const letters = fc.array(fc.constantFrom("a", "b", "*", "?"), { maxLength: 8 }).map((all) => all.join(""));
  const text = fc.array(fc.constantFrom("a", "b"), { maxLength: 8 }).map((all) => all.join(""));
  fc.assert(
    fc.property(letters, text, (pattern, one) => {
      const same = new RegExp(`^${pattern.replaceAll("*", ".*").replaceAll("?", ".")}$`);
      assert.equal(matchesWildcard(pattern, one), same.test(one));
    }),
    { numRuns: 2000 },
  );
  assert.equal(matchesWildcard("a.c", "abc"), false);
  assert.equal(matchesWildcard("*", "a\nb"), true);
});

/** Written in one of several ways. */
const v4 = fc.ipV4();
const v6 = fc.oneof(
  fc.ipV6(),
  v4.map((address) => `::ffff:${address}`),
  v4.map((address) => `::${address}`),
  fc.constantFrom("::", "::1", "2001:db8::", "fe80::1:0:0:1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "1:2:3:4:5:6:7::"),
);

test("addresses within ranges: any address, any range: as the BlockList of node:net says", () => {
  const check = (address: string, base: string, prefixBits: number): void => {
    const list = new BlockList();
    list.addSubnet(base, prefixBits, isIPv6(base) ? "ipv6" : "ipv4");
    const expected = list.check(address, isIPv6(address) ? "ipv6" : "ipv4");
    assert.equal(addressesWithin([`${base}/${prefixBits}`])(address), expected, `${address} in ${base}/${prefixBits}`);
  };
  fc.assert(fc.property(v4, v4, fc.nat(32), check));
  fc.assert(fc.property(v6, v6, fc.nat(128), check));
  fc.assert(fc.property(v6, v4, fc.nat(32), check));
  // An address is in each range that it begins.
  for (const address of [v4, v6] as const)
    fc.assert(fc.property(address, (one) => addressesWithin([one, `${one}/${isIPv6(one) ? 64 : 16}`])(one)));
});

test("client address: forwarded ones are believed from named proxies only, from the right", () => {
  const isProxy = addressesWithin(["10.0.0.0/8", "fd00::/8"]);
  const rows: readonly (readonly [peer: string, forwarded: readonly string[], expected: string | undefined])[] = [
    ["192.0.2.1", [], "192.0.2.1"],
    ["192.0.2.1", ["198.51.100.7"], "192.0.2.1"],
    ["10.0.0.1", ["198.51.100.7"], "198.51.100.7"],
    ["10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"],
    ["10.0.0.1", ["203.0.113.9", "198.51.100.7, 10.0.0.2"], "198.51.100.7"],
    ["fd00::1", ["2001:db8::5"], "2001:db8::5"],
    ["10.0.0.1", [], "10.0.0.1"],
    ["10.0.0.1", ["unknown"], undefined],
    ["10.0.0.1", ["198.51.100.7:443"], undefined],
  ];
  for (const [peer, forwarded, expected] of rows)
    assert.equal(clientAddress(peer, forwarded, isProxy), expected, `${peer} ${forwarded.join(" ")}`);
});
