// Access control lists: what requests ask for, documents, stored texts, limits; then the README's table of ACLs, a test per row.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { granteeOf, type CannedAcl, type Permission } from "./access/acl.ts";
import {
  aclXml,
  authorize,
  bounded,
  checkGrantees,
  fieldsOf,
  grantsOf,
  grantsText,
  isPrivateAcl,
  OBJECT_OWNERSHIPS,
  ownershipControlsXml,
  parseGrants,
  readAcl,
  readAclHeaders,
  readOwnershipControls,
  readPolicy,
  S3Error,
  type BucketAccess,
  type Caller,
  type Grant,
  type KnownObject,
  type S3Action,
} from "./index.ts";
import { ACL_GRANTS_MAX } from "./limits.ts";

const EVERYONE: Grant["grantee"] = { kind: "everyone" };
const TENANTS: Grant["grantee"] = { kind: "authenticated" };
const tenant = (id: string): Grant["grantee"] => ({ kind: "tenant", id });
const grant = (grantee: Grant["grantee"], permission: Permission): Grant => ({ grantee, permission });
const full = (id: string): Grant => grant(tenant(id), "FULL_CONTROL");

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const asked = (...entries: (readonly [string, string])[]) => readAclHeaders(fieldsOf(entries));

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (thrown) {
    assert.ok(thrown instanceof S3Error, String(thrown));
    return thrown.code;
  }
  return "accepted";
}

describe("ACLs in headers", () => {
  test("canned ones: whom each grants what, of an object of another than the bucket's owner and of the bucket's", () => {
    const of = (name: CannedAcl, owner: string): string =>
      grantsText(grantsOf({ kind: "canned", name }, { owner, bucketOwner: "ann" })).replaceAll('"', "");
    const rows: readonly (readonly [CannedAcl, string])[] = [
      ["private", ""],
      ["public-read", ",[READ,everyone]"],
      ["public-read-write", ",[READ,everyone],[WRITE,everyone]"],
      ["authenticated-read", ",[READ,authenticated]"],
      ["bucket-owner-read", ",[READ,tenant,ann]"],
      ["bucket-owner-full-control", ",[FULL_CONTROL,tenant,ann]"],
    ];
    for (const [name, more] of rows) {
      assert.equal(of(name, "bob"), `[[FULL_CONTROL,tenant,bob]${more}]`);
      assert.equal(of(name, "ann"), `[[FULL_CONTROL,tenant,ann]${name.startsWith("bucket-owner") ? "" : more}]`);
    }
  });

  test("grants: every permission, ids and groups, with quotes and without; the same twice is one; what is granted replaces all", () => {
    const all = asked(
      ["x-amz-grant-read", 'id="bob", uri="http://acs.amazonaws.com/groups/global/AllUsers"'],
      ["x-amz-grant-write", "uri=http://acs.amazonaws.com/groups/global/AuthenticatedUsers"],
      ["x-amz-grant-read-acp", "id=bob"],
      ["x-amz-grant-write-acp", "ID=bob"],
      ["x-amz-grant-full-control", "id=eve,id=eve"],
    );
    const grants = [
      grant(tenant("bob"), "READ"),
      grant(EVERYONE, "READ"),
      grant(TENANTS, "WRITE"),
      grant(tenant("bob"), "READ_ACP"),
      grant(tenant("bob"), "WRITE_ACP"),
      full("eve"),
    ];
    assert.deepEqual(all, { kind: "grants", grants });
    assert.deepEqual(grantsOf(all, { owner: "ann", bucketOwner: "ann" }), grants);
    assert.deepEqual(asked(), { kind: "none" });
  });

  for (const [name, value, code] of [
    ["x-amz-acl", "public", "InvalidArgument"],
    ["x-amz-acl", "", "InvalidArgument"],
    ["x-amz-acl", "log-delivery-write", "NotImplemented"],
    ["x-amz-acl", "aws-exec-read", "NotImplemented"],
    ["x-amz-grant-everything", "id=bob", "InvalidArgument"],
    ["x-amz-grant-constructor", "id=bob", "InvalidArgument"],
    ["x-amz-grant-read", "bob", "InvalidArgument"],
    ["x-amz-grant-read", "", "InvalidArgument"],
    ["x-amz-grant-read", "id=bob;id=eve x", "InvalidArgument"],
    ["x-amz-grant-read", "name=bob", "InvalidArgument"],
    ["x-amz-grant-read", 'uri="http://acs.amazonaws.com/groups/global/Strangers"', "InvalidArgument"],
    ["x-amz-grant-read", 'uri="http://acs.amazonaws.com/groups/s3/LogDelivery"', "NotImplemented"],
    ["x-amz-grant-read", 'emailAddress="bob@example.org"', "UnresolvableGrantByEmailAddress"],
  ] as const)
    test(`${name}: ${value}: ${code}`, () => {
      assert.equal(
        codeOf(() => asked([name, value])),
        code,
      );
    });

  test("a canned one and grants: InvalidRequest; a tenant that is not known: InvalidArgument", () => {
    assert.equal(
      codeOf(() => asked(["x-amz-acl", "private"], ["x-amz-grant-read", "id=bob"])),
      "InvalidRequest",
    );
    const known = (name: string): boolean => name === "bob";
    checkGrantees([full("bob"), grant(EVERYONE, "READ")], known);
    assert.equal(
      codeOf(() => checkGrantees([full("bob"), full("eve")], known)),
      "InvalidArgument",
    );
  });

  test("many grants: at the limit fine, above MalformedACLError", () => {
    const many = (count: number): Grant[] => Array.from({ length: count }, (_, at) => full(`t${at}`));
    assert.equal(bounded(many(ACL_GRANTS_MAX)).length, ACL_GRANTS_MAX);
    assert.equal(
      codeOf(() => bounded(many(ACL_GRANTS_MAX + 1))),
      "MalformedACLError",
    );
  });
});

describe("ACLs as texts", () => {
  const grants = [full("ann"), grant(EVERYONE, "READ"), grant(TENANTS, "WRITE"), grant(tenant('b"o<b'), "READ_ACP")];

  test("stored: golden text; what another version wrote, or damage, is never a grant", () => {
    const text = String.raw`[["FULL_CONTROL","tenant","ann"],["READ","everyone"],["WRITE","authenticated"],["READ_ACP","tenant","b\"o<b"]]`;
    assert.equal(grantsText(grants), text);
    assert.deepEqual(parseGrants(text), grants);
    for (const bad of ['[["ALL","everyone"]]', '[["READ","planet"]]', '[["READ","constructor"]]', '[["READ","tenant"]]', "[", "{}"])
      assert.throws(() => parseGrants(bad));
  });

  test("private: exactly the owner's full control", () => {
    assert.equal(isPrivateAcl({ owner: "ann", grants: [full("ann")] }), true);
    for (const other of [[], [full("bob")], [full("ann"), full("bob")], [grant(tenant("ann"), "READ")]])
      assert.equal(isPrivateAcl({ owner: "ann", grants: other }), false);
  });

  test("documents: what is answered reads back; clients' own form", () => {
    assert.deepEqual(readAcl(bytes(aclXml({ owner: "ann", grants }))), { owner: "ann", grants });
    const document =
      `<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><AccessControlList><Grant><Permission>READ</Permission>` +
      `<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>` +
      `</Grantee></Grant></AccessControlList></AccessControlPolicy>`;
    assert.deepEqual(readAcl(bytes(document)), { owner: undefined, grants: [grant(EVERYONE, "READ")] });
  });

  for (const [list, code] of [
    ["<Grant><Grantee><ID>bob</ID></Grantee></Grant>", "MalformedACLError"],
    ["<Grant><Grantee><ID>bob</ID></Grantee><Permission>ALL</Permission></Grant>", "MalformedACLError"],
    ["<Grant><Grantee><ID>bob</ID><URI>x</URI></Grantee><Permission>READ</Permission></Grant>", "MalformedACLError"],
    ["<Grant><Grantee></Grantee><Permission>READ</Permission></Grant>", "MalformedACLError"],
    ["<Gift/>", "MalformedACLError"],
    ["<Grant><Grantee><URI>x</URI></Grantee><Permission>READ</Permission></Grant>", "InvalidArgument"],
    ["<Grant><Grantee><EmailAddress>x</EmailAddress></Grantee><Permission>READ</Permission></Grant>", "UnresolvableGrantByEmailAddress"],
  ] as const)
    test(`a document of ${list}: ${code}`, () => {
      const document = `<AccessControlPolicy><AccessControlList>${list}</AccessControlList></AccessControlPolicy>`;
      assert.equal(
        codeOf(() => readAcl(bytes(document))),
        code,
      );
    });

  test("documents without a list, with two, with more: MalformedACLError", () => {
    const list = "<AccessControlList/>";
    for (const content of ["", `${list}${list}`, `${list}<Owner/><Owner/>`, `${list}<Rule/>`])
      assert.equal(
        codeOf(() => readAcl(bytes(`<AccessControlPolicy>${content}</AccessControlPolicy>`))),
        "MalformedACLError",
      );
  });

  test("ownership: each reads back; another, or none: MalformedXML", () => {
    for (const one of OBJECT_OWNERSHIPS) assert.equal(readOwnershipControls(bytes(ownershipControlsXml(one))), one);
    for (const rule of ["<Rule/>", "<Rule><ObjectOwnership>Mine</ObjectOwnership></Rule>", ""])
      assert.equal(
        codeOf(() => readOwnershipControls(bytes(`<OwnershipControls>${rule}</OwnershipControls>`))),
        "MalformedXML",
      );
  });

  test("grantees: the kinds of S3, no others", () => {
    assert.deepEqual(granteeOf("id", "bob"), tenant("bob"));
    assert.equal(
      codeOf(() => granteeOf("arn", "bob")),
      "InvalidArgument",
    );
  });
});

const ANN: Caller = { kind: "tenant", tenant: "ann" };
const BOB: Caller = { kind: "tenant", tenant: "bob" };
const EVE: Caller = { kind: "tenant", tenant: "eve" };
const ANYONE: Caller = { kind: "anonymous" };
const OPEN = { blockPublicAcls: false, ignorePublicAcls: false, blockPublicPolicy: false, restrictPublicBuckets: false };
const ABSENT: KnownObject = { kind: "absent" };
const NEW: KnownObject = { kind: "new" };
const of = (owner: string, ...grants: readonly Grant[]): KnownObject => ({
  kind: "there",
  acl: { owner, grants: [full(owner), ...grants] },
  tags: {},
});
const PLAIN: KnownObject = { kind: "there", acl: undefined, tags: {} };
const allowing = (Principal: unknown, ...Action: readonly string[]) =>
  readPolicy(
    bytes(JSON.stringify({ Statement: { Effect: "Allow", Principal, Action, Resource: "arn:aws:s3:::photos/*" } })),
    "photos",
    () => true,
  );

describe("authorize, in a bucket of ann's with ACLs", () => {
  const writable = { grants: [full("ann"), grant(EVERYONE, "WRITE"), grant(TENANTS, "WRITE_ACP"), grant(tenant("bob"), "READ_ACP")] };
  const listable = { grants: [full("ann"), grant(EVERYONE, "READ")] };
  const toBob = { policy: allowing({ AWS: "bob" }, "s3:GetObject", "s3:GetObjectAcl", "s3:PutObject") };
  const publicRead = of("bob", grant(EVERYONE, "READ"));
  type Row = readonly [
    name: string,
    access: Partial<BucketAccess>,
    caller: Caller,
    action: S3Action,
    object: KnownObject | undefined,
    expected: string,
  ];
  const rows: readonly Row[] = [
    ["ACLs that mean nothing", { ...writable, ownership: "BucketOwnerEnforced" }, BOB, "s3:GetObject", publicRead, "denied by default"],
    [
      "ACLs that mean nothing, of the bucket",
      { ...listable, ownership: "BucketOwnerEnforced" },
      BOB,
      "s3:ListBucket",
      undefined,
      "denied by default",
    ],
    ["another's object, the bucket's owner", { ownership: "BucketOwnerEnforced" }, ANN, "s3:GetObject", of("bob"), "allowed by owner"],

    ["an object that is not known yet", {}, BOB, "s3:GetObject", undefined, "undecided by object"],
    ["an object that is not known yet, the bucket's owner", {}, ANN, "s3:GetObject", undefined, "undecided by object"],
    ["an object that is not known yet, allowed by policy", toBob, BOB, "s3:GetObject", undefined, "undecided by object"],
    ["its own object", {}, ANN, "s3:GetObject", PLAIN, "allowed by owner"],
    ["an object without an ACL", {}, BOB, "s3:GetObject", PLAIN, "denied by default"],
    ["an object without an ACL, by policy", toBob, BOB, "s3:GetObject", PLAIN, "allowed by policy"],
    ["an object that the caller owns", {}, BOB, "s3:GetObject", of("bob"), "allowed by owner"],
    ["an object that the caller owns, its ACL", {}, BOB, "s3:PutObjectAcl", of("bob"), "allowed by owner"],
    ["an object that the caller owns, its attributes", {}, BOB, "s3:GetObjectAttributes", of("bob"), "allowed by owner"],
    ["another's object, the bucket's owner, to read it", {}, ANN, "s3:GetObject", of("bob"), "denied by default"],
    ["another's object, the bucket's owner, to read its ACL", {}, ANN, "s3:GetObjectAcl", of("bob"), "denied by default"],
    ["another's object, the bucket's owner, to delete it", {}, ANN, "s3:DeleteObject", of("bob"), "allowed by owner"],
    ["another's object, the bucket's owner, to replace it", {}, ANN, "s3:PutObject", of("bob"), "allowed by owner"],
    ["another's object, given to the bucket's owner", {}, ANN, "s3:GetObject", of("bob", full("ann")), "allowed by acl"],
    [
      "another's object, by policy",
      { policy: allowing({ AWS: "eve" }, "s3:GetObject") },
      EVE,
      "s3:GetObject",
      of("bob"),
      "denied by default",
    ],
    ["an object that is granted to the caller", {}, EVE, "s3:GetObject", of("bob", grant(tenant("eve"), "READ")), "allowed by acl"],
    ["a version of it", {}, EVE, "s3:GetObjectVersion", of("bob", grant(tenant("eve"), "READ")), "allowed by acl"],
    ["an object that is granted to another", {}, EVE, "s3:GetObject", of("ann", grant(tenant("bob"), "READ")), "denied by default"],
    ["READ is not READ_ACP", {}, EVE, "s3:GetObjectAcl", of("bob", grant(tenant("eve"), "READ")), "denied by default"],
    ["READ_ACP", {}, EVE, "s3:GetObjectAcl", of("bob", grant(tenant("eve"), "READ_ACP")), "allowed by acl"],
    ["READ_ACP is not WRITE_ACP", {}, EVE, "s3:PutObjectAcl", of("bob", grant(tenant("eve"), "READ_ACP")), "denied by default"],
    ["WRITE_ACP", {}, EVE, "s3:PutObjectVersionAcl", of("bob", grant(tenant("eve"), "WRITE_ACP")), "allowed by acl"],
    ["FULL_CONTROL", {}, EVE, "s3:PutObjectAcl", of("bob", full("eve")), "allowed by acl"],
    ["READ does not say the attributes", {}, EVE, "s3:GetObjectAttributes", of("bob", full("eve")), "denied by default"],
    ["READ does not say the tags", {}, EVE, "s3:GetObjectTagging", of("bob", full("eve")), "denied by default"],
    ["a public object, anonymous", {}, ANYONE, "s3:GetObject", publicRead, "allowed by acl"],
    ["every tenant's object, anonymous", {}, ANYONE, "s3:GetObject", of("bob", grant(TENANTS, "READ")), "denied by default"],
    ["every tenant's object, a tenant", {}, EVE, "s3:GetObject", of("bob", grant(TENANTS, "READ")), "allowed by acl"],
    ["a public object that is not there", {}, ANYONE, "s3:GetObject", ABSENT, "denied by default"],

    ["public ACLs ignored", { block: { ...OPEN, ignorePublicAcls: true } }, EVE, "s3:GetObject", publicRead, "denied by default"],
    [
      "public ACLs ignored, a tenant by name",
      { block: { ...OPEN, ignorePublicAcls: true } },
      EVE,
      "s3:GetObject",
      of("bob", full("eve")),
      "allowed by acl",
    ],
    ["public access refused, anonymous", { publicAccess: "refused" }, ANYONE, "s3:GetObject", publicRead, "denied by gateway"],
    ["public access refused, a tenant", { publicAccess: "refused" }, EVE, "s3:GetObject", publicRead, "denied by default"],
    ["public access refused, a tenant by name", { publicAccess: "refused" }, EVE, "s3:GetObject", of("bob", full("eve")), "allowed by acl"],
    [
      "a public policy restricted, granted",
      { policy: allowing("*", "s3:GetObject"), block: { ...OPEN, restrictPublicBuckets: true } },
      EVE,
      "s3:GetObject",
      of("bob", full("eve")),
      "denied by public access block",
    ],

    ["a listable bucket, anonymous", listable, ANYONE, "s3:ListBucket", undefined, "allowed by acl"],
    ["a listable bucket, its versions", listable, ANYONE, "s3:ListBucketVersions", undefined, "allowed by acl"],
    [
      "a listable bucket, public ACLs ignored",
      { ...listable, block: { ...OPEN, ignorePublicAcls: true } },
      EVE,
      "s3:ListBucket",
      undefined,
      "denied by default",
    ],
    ["a listable bucket, to write", listable, EVE, "s3:PutObject", undefined, "denied by default"],
    ["the bucket's ACL", writable, BOB, "s3:GetBucketAcl", undefined, "allowed by acl"],
    ["the bucket's ACL, another", writable, EVE, "s3:GetBucketAcl", undefined, "denied by default"],
    ["the bucket's ACL, to change", writable, EVE, "s3:PutBucketAcl", undefined, "allowed by acl"],
    ["what no ACL grants", { grants: [full("bob")] }, BOB, "s3:PutBucketPolicy", undefined, "denied by default"],
    ["what no ACL grants of an object", { grants: [full("bob")] }, BOB, "s3:DeleteObjectVersion", of("bob"), "denied by default"],

    ["WRITE, what it replaces is not known yet", writable, EVE, "s3:PutObject", undefined, "undecided by object"],
    ["WRITE, a new object", writable, EVE, "s3:PutObject", ABSENT, "allowed by acl"],
    ["WRITE, a part", writable, ANYONE, "s3:PutObject", NEW, "allowed by acl"],
    ["WRITE, to replace its own", writable, BOB, "s3:PutObject", of("bob"), "allowed by acl"],
    ["WRITE, to replace another's", writable, EVE, "s3:PutObject", of("bob"), "denied by default"],
    ["WRITE, to replace the bucket owner's", writable, EVE, "s3:PutObject", PLAIN, "denied by default"],
    ["WRITE, anonymous, to replace", writable, ANYONE, "s3:PutObject", of("bob"), "denied by default"],
    ["WRITE, to delete its own", writable, BOB, "s3:DeleteObject", of("bob"), "allowed by acl"],
    ["WRITE, to delete another's", writable, EVE, "s3:DeleteObject", of("bob"), "denied by default"],
    ["WRITE, to abort its own upload", writable, BOB, "s3:AbortMultipartUpload", of("bob"), "allowed by acl"],
    ["WRITE, to abort another's upload", writable, EVE, "s3:AbortMultipartUpload", of("bob"), "denied by default"],
    ["by policy, to replace another's", toBob, BOB, "s3:PutObject", of("eve"), "allowed by policy"],
    ["WRITE, the ACL of a new object", writable, EVE, "s3:PutObjectAcl", NEW, "allowed by acl"],
    ["WRITE, anonymous, the ACL of a new object", writable, ANYONE, "s3:PutObjectAcl", NEW, "denied by default"],
    ["without WRITE, the ACL of a new object", listable, EVE, "s3:PutObjectAcl", NEW, "denied by default"],
    ["by policy without that right, the ACL of a new object", toBob, BOB, "s3:PutObjectAcl", NEW, "denied by default"],
  ];
  for (const [name, access, caller, action, object, expected] of rows)
    test(`${name}: ${action}: ${expected}`, () => {
      const bucket: BucketAccess = {
        bucket: "photos",
        owner: "ann",
        policy: undefined,
        block: OPEN,
        ownership: "ObjectWriter",
        grants: [full("ann")],
        publicAccess: "possible",
        ...access,
      };
      const { kind, by } = authorize(bucket, { caller, action, key: "k", facts: {}, object });
      assert.equal(`${kind} by ${by}`, expected);
    });
});
