import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  completeMultipartUploadXml,
  copyObjectXml,
  copyPartXml,
  deleteResultXml,
  errorXml,
  escapeXml,
  initiateMultipartUploadXml,
  listBucketsXml,
  listObjectsV2Xml,
  listObjectsXml,
  listPartsXml,
  listUploadsXml,
  listVersionsXml,
  locationXml,
  objectAttributesXml,
  readCompleteMultipartUpload,
  readCreateBucketConfiguration,
  readDelete,
  readVersioning,
  readTagging,
  S3Error,
  taggingXml,
  versioningXml,
} from "./index.ts";
import { parseXml, type XmlElement } from "./xml/reader.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text, "utf8");
const utf16 = (text: string): Uint8Array => Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, "utf16le")]);
const NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"';

const REFUSED: readonly (readonly [what: string, body: string | Uint8Array])[] = [
  ["nothing but blanks", "  "],
  ["text", "hello"],
  ["a DOCTYPE", "<!DOCTYPE a><a/>"],
  ["a DOCTYPE with an entity", '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'],
  ["an external entity", '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'],
  [
    "a billion laughs",
    `<!DOCTYPE a [${Array.from({ length: 10 }, (_, i) => `<!ENTITY l${i} "&l${i + 1};&l${i + 1};">`).join("")}]><a>&l0;</a>`,
  ],
  ["a parameter entity", '<!DOCTYPE a [<!ENTITY % x "y"> %x;]><a/>'],
  ["an unknown entity", "<a>&nbsp;</a>"],
  ["an entity that is a property of objects", "<a>&constructor;</a>"],
  ["an entity without an end", "<a>&amp</a>"],
  ["a bare ampersand", "<a>a & b</a>"],
  ["an entity name that is too long", `<a>&${"x".repeat(100)};</a>`],
  ["the character NUL as a number", "<a>&#0;</a>"],
  ["a surrogate as a number", "<a>&#xD800;</a>"],
  ["a number beyond Unicode", "<a>&#x110000;</a>"],
  ["a number of many digits", "<a>&#99999999999999999999;</a>"],
  ["a negative number", "<a>&#-1;</a>"],
  ["a number that is none", "<a>&#x;</a>"],
  ["NUL", "<a>\0</a>"],
  ["a control character", "<a>\u0001</a>"],
  ["a processing instruction", "<a><?php echo 1 ?></a>"],
  ["a style sheet", '<?xml version="1.0"?><?xml-stylesheet href="x"?><a/>'],
  ["a declaration that is not first", ' <?xml version="1.0"?><a/>'],
  ["two declarations", '<?xml version="1.0"?><?xml version="1.0"?><a/>'],
  ["another encoding", '<?xml version="1.0" encoding="ISO-8859-1"?><a/>'],
  ["UTF-7", '<?xml version="1.0" encoding="UTF-7"?><a/>'],
  ["another version", '<?xml version="2.0"?><a/>'],
  ["UTF-16", utf16("<a/>")],
  ["UTF-16 without a mark", Buffer.from("<a/>", "utf16le")],
  ["bytes that are no UTF-8", Buffer.from([0x3c, 0x61, 0x3e, 0xff, 0x3c, 0x2f, 0x61, 0x3e])],
  ["an overlong encoding", Buffer.from([0x3c, 0x61, 0x3e, 0xc0, 0xbc, 0x3c, 0x2f, 0x61, 0x3e])],
  ["two marks of byte order", "\ufeff\ufeff<a/>"],
  ["CDATA that does not end", "<a><![CDATA[x]]</a>"],
  ["CDATA around the root", "<![CDATA[x]]><a/>"],
  ["CDATA between elements", "<a><b/><![CDATA[x]]></a>"],
  ["texts and CDATA too long together", `<a>${"x".repeat(4096)}<!-- -->${"x".repeat(4096)}<![CDATA[x]]></a>`],
  ["the end of CDATA", "<a>]]></a>"],
  ["a comment with two dashes", "<a><!-- x -- y --></a>"],
  ["a comment that does not end", "<a><!-- x ->"],
  ["a comment before the declaration", '<!-- x --><?xml version="1.0"?><a/>'],
  ["a comment in a tag", "<a <!-- x -->></a>"],
  ["something behind", "<a/>x"],
  ["an element behind", "<a/><b/>"],
  ["no end", "<a>"],
  ["no end of a tag", "<a"],
  ["an end without a start", "</a>"],
  ["another end", "<a></b>"],
  ["an end that only starts alike", "<a></ab>"],
  ["crossed elements", "<a><b></a></b>"],
  ["a blank before a name", "< a/>"],
  ["a name that starts with a digit", "<1a/>"],
  ["a prefix", '<s3:a xmlns:s3="http://s3.amazonaws.com/doc/2006-03-01/"/>'],
  ["a name with other letters", "<ä/>"],
  ["an attribute without a value", "<a b/>"],
  ["an attribute without quotes", "<a b=c/>"],
  ["an attribute twice", '<a b="1" b="2"/>'],
  ["an attribute with a tag", '<a b="<"/>'],
  ["an attribute with an unknown entity", '<a b="&x;"/>'],
  ["attributes without a blank", '<a b="1"c="2"/>'],
  ["too many attributes", `<a ${Array.from({ length: 17 }, (_, i) => `b${i}="1"`).join(" ")}/>`],
  ["another namespace", '<a xmlns="http://example.com/"/>'],
  ["the namespace without https", '<a xmlns="https://s3.amazonaws.com/doc/2006-03-01/"/>'],
  ["text between elements", "<a><b/>x</a>"],
  ["text before elements", "<a>x<b/></a>"],
  ["nine levels", `${"<a>".repeat(9)}${"</a>".repeat(9)}`],
  ["100 000 levels", "<a>".repeat(100_000)],
  ["100 000 levels, closed", `${"<a>".repeat(100_000)}${"</a>".repeat(100_000)}`],
  ["50 001 elements", `<a>${"<b/>".repeat(50_000)}</a>`],
  ["a text too long", `<a>${"x".repeat(8193)}</a>`],
  ["a text of a megabyte of entities", `<a>${"&amp;".repeat(200_000)}</a>`],
];

for (const [what, body] of REFUSED) {
  test(`parseXml: ${what}: MalformedXML`, () => {
    assert.throws(() => parseXml(typeof body === "string" ? bytes(body) : body), { code: "MalformedXML" });
  });
}

const ACCEPTED: readonly (readonly [what: string, body: string, root: XmlElement])[] = [
  ["an empty element", "<a/>", { name: "a", children: [], text: "" }],
  ["a text", "<a> x\ty </a>", { name: "a", children: [], text: " x\ty " }],
  [
    "all entities",
    "<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x1F600;&#xd;&#x1;</a>",
    { name: "a", children: [], text: "<>&\"'A\u{1F600}\r\u0001" },
  ],
  ["an escaped escape", "<a>&amp;lt;</a>", { name: "a", children: [], text: "&lt;" }],
  ["a mark of byte order", "\ufeff<a/>", { name: "a", children: [], text: "" }],
  ["a declaration", '<?xml version="1.0" encoding="utf-8" standalone="yes"?>\r\n<a/>\n', { name: "a", children: [], text: "" }],
  ["line ends of Windows", "<a>x\r\ny\rz</a>", { name: "a", children: [], text: "x\ny\nz" }],
  ["a namespace", `<a ${NS}><b xmlns=""/></a>`, { name: "a", children: [{ name: "b", children: [], text: "" }], text: "" }],
  ["other attributes", `<a xmlns:xsi="x" xsi:type='y'></a >`, { name: "a", children: [], text: "" }],
  [
    "eight levels",
    `${"<a>".repeat(8)}${"</a>".repeat(8)}`,
    Array.from({ length: 7 }).reduce<XmlElement>((child) => ({ name: "a", children: [child], text: "" }), {
      name: "a",
      children: [],
      text: "",
    }),
  ],
  ["CDATA", "<a>x<![CDATA[<&amp;>]]>y</a>", { name: "a", children: [], text: "x<&amp;>y" }],
  ["comments", "<!-- a --><a><!-- <b> -->x<!----></a>\n<!-- c -->", { name: "a", children: [], text: "x" }],
  ["the longest text", `<a>${"x".repeat(8192)}</a>`, { name: "a", children: [], text: "x".repeat(8192) }],
];

for (const [what, body, root] of ACCEPTED) {
  test(`parseXml: ${what}: read`, () => assert.deepEqual(parseXml(bytes(body)), root));
}

test("parseXml: 50 000 elements: read, and in time linear in their number", () => {
  assert.equal(parseXml(bytes(`<a>${"<b/>".repeat(49_999)}</a>`)).children.length, 49_999);
});

test("parseXml: anything at all: an element or MalformedXML", () => {
  const tokens = fc.constantFrom(
    "<",
    ">",
    "/",
    "a",
    "b",
    "=",
    '"',
    "'",
    "&",
    ";",
    "amp",
    "#x",
    "1",
    "!",
    "?",
    "xml",
    "[",
    "]",
    "-",
    " ",
    "\n",
    "\0",
    "ü",
    "\ufeff",
  );
  const text = fc.oneof(
    fc.array(tokens, { maxLength: 30 }).map((parts) => parts.join("")),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.oneof(text.map(bytes), fc.uint8Array()), (body) => {
      try {
        parseXml(body);
      } catch (error) {
        if (!(error instanceof S3Error) || error.code !== "MalformedXML") throw error;
      }
    }),
    { numRuns: 3000 },
  );
});

test("escapeXml, parseXml: any text: comes back as it was", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 50 }), (text) => {
      fc.pre(text.isWellFormed() && !text.includes("\0") && text.trim() !== "");
      assert.equal(parseXml(bytes(`<a>${escapeXml(text)}</a>`)).text, text);
    }),
    { numRuns: 1000 },
  );
});

const part = (number: string, etag = "e", more = ""): string =>
  `<Part><PartNumber>${number}</PartNumber><ETag>${etag}</ETag>${more}</Part>`;
const complete = (...parts: string[]): string => `<CompleteMultipartUpload ${NS}>${parts.join("")}</CompleteMultipartUpload>`;
const remove = (content: string): string => `<Delete ${NS}>${content}</Delete>`;
const keys = (count: number): string => Array.from({ length: count }, (_, i) => `<Object><Key>k${i}</Key></Object>`).join("");
const tagging = (...tags: [string, string][]): string =>
  `<Tagging><TagSet>${tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join("")}</TagSet></Tagging>`;
const READERS = {
  complete: readCompleteMultipartUpload,
  delete: readDelete,
  versioning: readVersioning,
  location: readCreateBucketConfiguration,
  tagging: (body: Uint8Array) => readTagging(body, 10),
};

const BODIES: readonly (readonly [reader: keyof typeof READERS, what: string, body: string, code: string])[] = [
  ["complete", "no body", "", "MalformedXML"],
  ["complete", "another root", remove(""), "MalformedXML"],
  ["complete", "no part", complete(), "MalformedXML"],
  ["complete", "part 0", complete(part("0")), "MalformedXML"],
  ["complete", "part 10000", complete(part("10000")), "accepted"],
  ["complete", "part 10001", complete(part("10001")), "MalformedXML"],
  ["complete", "part -1", complete(part("-1")), "MalformedXML"],
  ["complete", "part 1.5", complete(part("1.5")), "MalformedXML"],
  ["complete", "part 0x1", complete(part("0x1")), "MalformedXML"],
  ["complete", "no number", complete("<Part><ETag>e</ETag></Part>"), "MalformedXML"],
  ["complete", "no ETag", complete("<Part><PartNumber>1</PartNumber></Part>"), "MalformedXML"],
  ["complete", "a number twice", complete(part("1", "e", "<PartNumber>2</PartNumber>")), "MalformedXML"],
  ["complete", "an unknown element", complete(part("1", "e", "<Size>5</Size>")), "MalformedXML"],
  ["complete", "two checksums", complete(part("1", "e", "<ChecksumCRC32>A</ChecksumCRC32><ChecksumSHA1>A</ChecksumSHA1>")), "MalformedXML"],
  ["complete", "an element in a number", complete("<Part><PartNumber><a/></PartNumber><ETag>e</ETag></Part>"), "MalformedXML"],
  ["complete", "something that is no part", complete("<Object/>"), "MalformedXML"],
  ["complete", "10 000 parts", complete(...Array.from({ length: 10_000 }, (_, i) => part(String(i + 1)))), "accepted"],
  ["complete", "10 001 parts", complete(...Array.from({ length: 10_001 }, () => part("1"))), "MalformedXML"],
  ["delete", "no body", "", "MissingRequestBodyError"],
  ["delete", "no key", remove(""), "MalformedXML"],
  ["delete", "an empty key", remove("<Object><Key></Key></Object>"), "MalformedXML"],
  ["delete", "an object without a key", remove("<Object/>"), "MalformedXML"],
  ["delete", "a key twice in an object", remove("<Object><Key>a</Key><Key>b</Key></Object>"), "MalformedXML"],
  ["delete", "1000 keys", remove(keys(1000)), "accepted"],
  ["delete", "1001 keys", remove(keys(1001)), "MalformedXML"],
  ["delete", "Quiet that is neither", remove(`<Quiet>maybe</Quiet>${keys(1)}`), "MalformedXML"],
  ["delete", "Quiet twice", remove(`<Quiet>true</Quiet><Quiet>false</Quiet>${keys(1)}`), "MalformedXML"],
  ["delete", "a version", remove("<Object><Key>a</Key><VersionId>v</VersionId></Object>"), "accepted"],
  ["delete", "the null version", remove("<Object><Key>a</Key><VersionId>null</VersionId></Object>"), "accepted"],
  ["delete", "an ETag", remove("<Object><Key>a</Key><ETag>e</ETag></Object>"), "accepted"],
  ["delete", "an ETag twice", remove("<Object><Key>a</Key><ETag>e</ETag><ETag>e</ETag></Object>"), "MalformedXML"],
  ["delete", "a size that is none", remove("<Object><Key>a</Key><Size>-1</Size></Object>"), "InvalidArgument"],
  ["delete", "a time that is none", remove("<Object><Key>a</Key><LastModifiedTime>soon</LastModifiedTime></Object>"), "InvalidArgument"],
  ["location", "no body", "", "accepted"],
  ["location", "nothing", "<CreateBucketConfiguration/>", "accepted"],
  [
    "location",
    "a region",
    "<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>",
    "accepted",
  ],
  ["location", "text", "<CreateBucketConfiguration>eu</CreateBucketConfiguration>", "MalformedXML"],
  [
    "location",
    "a directory bucket",
    "<CreateBucketConfiguration><Bucket><Type>Directory</Type></Bucket></CreateBucketConfiguration>",
    "NotImplemented",
  ],
  ["versioning", "no body", "", "MissingRequestBodyError"],
  ["versioning", "on", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>", "accepted"],
  ["versioning", "no status", "<VersioningConfiguration/>", "IllegalVersioningConfigurationException"],
  [
    "versioning",
    "off",
    "<VersioningConfiguration><Status>Off</Status></VersioningConfiguration>",
    "IllegalVersioningConfigurationException",
  ],
  [
    "versioning",
    "a second factor",
    "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>",
    "NotImplemented",
  ],
  ["tagging", "no body", "", "MissingRequestBodyError"],
  ["tagging", "no tag", tagging(), "accepted"],
  ["tagging", "no set", "<Tagging/>", "MalformedXML"],
  ["tagging", "two sets", "<Tagging><TagSet/><TagSet/></Tagging>", "MalformedXML"],
  ["tagging", "a tag without a value", "<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>", "MalformedXML"],
  ["tagging", "something that is no tag", "<Tagging><TagSet><Key>a</Key></TagSet></Tagging>", "MalformedXML"],
  ["tagging", "a key twice", tagging(["a", "1"], ["a", "2"]), "InvalidTag"],
  ["tagging", "an empty key", tagging(["", "1"]), "InvalidTag"],
  ["tagging", "an empty value", tagging(["a", ""]), "accepted"],
  ["tagging", "a key of 128 characters", tagging(["a".repeat(128), "1"]), "accepted"],
  ["tagging", "a key of 129 characters", tagging(["a".repeat(129), "1"]), "InvalidTag"],
  ["tagging", "a value of 256 characters", tagging(["a", "1".repeat(256)]), "accepted"],
  ["tagging", "a value of 257 characters", tagging(["a", "1".repeat(257)]), "InvalidTag"],
  ["tagging", "a character that is not allowed", tagging(["a?", "1"]), "InvalidTag"],
  ["tagging", "the key __proto__", tagging(["__proto__", "1"]), "accepted"],
  ["tagging", "10 tags", tagging(...Array.from({ length: 10 }, (_, i): [string, string] => [`k${i}`, "v"])), "accepted"],
  ["tagging", "11 tags", tagging(...Array.from({ length: 11 }, (_, i): [string, string] => [`k${i}`, "v"])), "BadRequest"],
];

for (const [reader, what, body, code] of BODIES) {
  test(`${reader} body: ${what}: ${code}`, () => {
    if (code === "accepted") READERS[reader](bytes(body));
    else assert.throws(() => READERS[reader](bytes(body)), { code });
  });
}

test("bodies: what they say: read", () => {
  const checksum = "<ChecksumCRC64NVME>AAAAAAAAAAA=</ChecksumCRC64NVME>";
  assert.deepEqual(readCompleteMultipartUpload(bytes(complete(part("2", "&quot;abc&quot;"), part("7", "d", checksum)))), [
    { number: 2, etag: "abc", checksum: undefined },
    { number: 7, etag: "d", checksum: { algorithm: "CRC64NVME", value: "AAAAAAAAAAA=" } },
  ]);
  assert.deepEqual(readDelete(bytes(remove("<Quiet>true</Quiet><Object><Key> a&amp;b\n</Key></Object>"))), {
    quiet: true,
    objects: [{ key: " a&b\n", condition: {}, versionId: undefined }],
  });
  const conditions = '<ETag>"e"</ETag><Size>4</Size><LastModifiedTime>Wed, 21 Oct 2015 07:28:00 GMT</LastModifiedTime>';
  const condition = { ifMatch: ["e"], sizeBytes: 4, modifiedMs: Date.UTC(2015, 9, 21, 7, 28) };
  assert.deepEqual(readDelete(bytes(remove(`<Object><Key>a</Key>${conditions}</Object>`))).objects, [
    { key: "a", condition, versionId: undefined },
  ]);
  const iso = "<LastModifiedTime>2015-10-21T07:28:00.000Z</LastModifiedTime>";
  assert.equal(readDelete(bytes(remove(`<Object><Key>a</Key>${iso}</Object>`))).objects[0]!.condition.modifiedMs, condition.modifiedMs);
  assert.equal(readDelete(bytes(remove(keys(1)))).quiet, false);
  assert.equal(
    readCreateBucketConfiguration(
      bytes("<CreateBucketConfiguration><LocationConstraint>eu-1</LocationConstraint></CreateBucketConfiguration>"),
    ),
    "eu-1",
  );
  assert.deepEqual(Object.entries(readTagging(bytes(tagging(["__proto__", "1"])), 10)), [["__proto__", "1"]]);
});

const NAME = { bucket: "b", key: "k<&", uploadId: "u" };
const OWNER = { id: "t" };
const CHECKSUM = { algorithm: "CRC32", type: "FULL_OBJECT", value: "AAAAAA==" } as const;
const LIST = {
  bucket: "b",
  prefix: "p q",
  delimiter: "/",
  maxKeys: 2,
  truncated: true,
  owner: undefined,
  objects: [{ key: "p q\u0001+\r", sizeBytes: 5, etag: "e", modifiedMs: 0, checksum: CHECKSUM }],
  commonPrefixes: ["p q/"],
};
const HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n';

const ANSWERS: readonly (readonly [what: string, xml: string, expected: string])[] = [
  [
    "an error",
    errorXml(new S3Error("NoSuchKey", undefined, { elements: { Key: "a<b" } }), { resource: "/b/a<b", requestId: "R" }),
    "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message><Key>a&lt;b</Key><Resource>/b/a&lt;b</Resource><RequestId>R</RequestId></Error>",
  ],
  [
    "buckets",
    listBucketsXml({ owner: OWNER, buckets: [{ name: "b", region: "eu", createdMs: 0 }], continuationToken: "n" }),
    `<ListAllMyBucketsResult ${NS}><Owner><ID>t</ID></Owner><Buckets><Bucket><Name>b</Name><CreationDate>1970-01-01T00:00:00.000Z</CreationDate><BucketRegion>eu</BucketRegion></Bucket></Buckets><ContinuationToken>n</ContinuationToken></ListAllMyBucketsResult>`,
  ],
  ["a location", locationXml("eu-1"), `<LocationConstraint ${NS}>eu-1</LocationConstraint>`],
  ["the location us-east-1", locationXml("us-east-1"), `<LocationConstraint ${NS}></LocationConstraint>`],
  [
    "objects, version 1, as text",
    listObjectsXml({ ...LIST, encoding: undefined, marker: "", nextMarker: "p q/" }),
    `<ListBucketResult ${NS}><Name>b</Name><Prefix>p q</Prefix><Marker></Marker><NextMarker>p q/</NextMarker><MaxKeys>2</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated><Contents><Key>p q&#x1;+&#xD;</Key><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>5</Size><StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>p q/</Prefix></CommonPrefixes></ListBucketResult>`,
  ],
  [
    "objects, version 2, keys encoded",
    listObjectsV2Xml({ ...LIST, encoding: "url", owner: OWNER, continuationToken: "c", nextContinuationToken: "n", startAfter: "a b" }),
    `<ListBucketResult ${NS}><Name>b</Name><Prefix>p%20q</Prefix><KeyCount>2</KeyCount><MaxKeys>2</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated><EncodingType>url</EncodingType><ContinuationToken>c</ContinuationToken><NextContinuationToken>n</NextContinuationToken><StartAfter>a%20b</StartAfter><Contents><Key>p%20q%01%2B%0D</Key><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>5</Size><Owner><ID>t</ID></Owner><StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>p%20q/</Prefix></CommonPrefixes></ListBucketResult>`,
  ],
  [
    "a new upload",
    initiateMultipartUploadXml(NAME),
    `<InitiateMultipartUploadResult ${NS}><Bucket>b</Bucket><Key>k&lt;&amp;</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>`,
  ],
  [
    "a completed upload",
    completeMultipartUploadXml({
      ...NAME,
      location: "/b/k",
      etag: "e-2",
      checksum: { ...CHECKSUM, type: "COMPOSITE", value: "AAAAAA==-2" },
    }),
    `<CompleteMultipartUploadResult ${NS}><Location>/b/k</Location><Bucket>b</Bucket><Key>k&lt;&amp;</Key><ETag>&quot;e-2&quot;</ETag><ChecksumCRC32>AAAAAA==-2</ChecksumCRC32><ChecksumType>COMPOSITE</ChecksumType></CompleteMultipartUploadResult>`,
  ],
  [
    "a copy",
    copyObjectXml({ etag: "e", modifiedMs: 0, checksum: CHECKSUM }),
    `<CopyObjectResult ${NS}><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></CopyObjectResult>`,
  ],
  [
    "a copied part",
    copyPartXml({ etag: "e", modifiedMs: 0, checksum: CHECKSUM }),
    `<CopyPartResult ${NS}><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></CopyPartResult>`,
  ],
  [
    "parts",
    listPartsXml({
      ...NAME,
      owner: OWNER,
      marker: 1,
      next: 2,
      maxParts: 1,
      encoding: undefined,
      checksum: CHECKSUM,
      parts: [{ number: 2, etag: "e", sizeBytes: 5, modifiedMs: 0, checksum: CHECKSUM }],
    }),
    `<ListPartsResult ${NS}><Bucket>b</Bucket><Key>k&lt;&amp;</Key><UploadId>u</UploadId><PartNumberMarker>1</PartNumberMarker><NextPartNumberMarker>2</NextPartNumberMarker><MaxParts>1</MaxParts><IsTruncated>true</IsTruncated><Part><PartNumber>2</PartNumber><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>5</Size><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part><Initiator><ID>t</ID></Initiator><Owner><ID>t</ID></Owner><StorageClass>STANDARD</StorageClass><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType></ListPartsResult>`,
  ],
  [
    "uploads",
    listUploadsXml({
      bucket: "b",
      prefix: "",
      delimiter: undefined,
      keyMarker: "",
      uploadIdMarker: "",
      maxUploads: 1,
      encoding: undefined,
      owner: OWNER,
      uploads: [{ key: "k", uploadId: "u", initiatedMs: 0 }],
      commonPrefixes: ["p/"],
      next: { key: "k", uploadId: "u" },
    }),
    `<ListMultipartUploadsResult ${NS}><Bucket>b</Bucket><KeyMarker></KeyMarker><UploadIdMarker></UploadIdMarker><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker><Prefix></Prefix><MaxUploads>1</MaxUploads><IsTruncated>true</IsTruncated><Upload><Key>k</Key><UploadId>u</UploadId><Initiator><ID>t</ID></Initiator><Owner><ID>t</ID></Owner><StorageClass>STANDARD</StorageClass><Initiated>1970-01-01T00:00:00.000Z</Initiated></Upload><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListMultipartUploadsResult>`,
  ],
  [
    "versions",
    listVersionsXml({
      bucket: "b",
      prefix: "p",
      delimiter: "/",
      keyMarker: "k",
      versionIdMarker: "3",
      maxKeys: 2,
      encoding: undefined,
      owner: OWNER,
      versions: [
        { key: "k", versionId: "2", isLatest: true, modifiedMs: 0, object: undefined },
        { key: "k", versionId: "null", isLatest: false, modifiedMs: 0, object: { sizeBytes: 5, etag: "e", checksum: undefined } },
      ],
      commonPrefixes: ["p/"],
      next: { key: "k", versionId: "1" },
    }),
    `<ListVersionsResult ${NS}><Name>b</Name><Prefix>p</Prefix><KeyMarker>k</KeyMarker><VersionIdMarker>3</VersionIdMarker><NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>1</NextVersionIdMarker><MaxKeys>2</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated><DeleteMarker><Key>k</Key><VersionId>2</VersionId><IsLatest>true</IsLatest><LastModified>1970-01-01T00:00:00.000Z</LastModified><Owner><ID>t</ID></Owner></DeleteMarker><Version><Key>k</Key><VersionId>null</VersionId><IsLatest>false</IsLatest><LastModified>1970-01-01T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>5</Size><Owner><ID>t</ID></Owner><StorageClass>STANDARD</StorageClass></Version><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListVersionsResult>`,
  ],
  ["versioning of none", versioningXml(undefined), `<VersioningConfiguration ${NS}></VersioningConfiguration>`],
  ["versioning", versioningXml("suspended"), `<VersioningConfiguration ${NS}><Status>Suspended</Status></VersioningConfiguration>`],
  [
    "deletions",
    deleteResultXml({
      quiet: false,
      deleted: [
        { key: "a", versionId: undefined, markerId: undefined },
        { key: "m", versionId: undefined, markerId: "2" },
        { key: "v", versionId: "1", markerId: undefined },
      ],
      failed: [
        { key: "b", versionId: undefined, error: new S3Error("SlowDown") },
        { key: "b", versionId: "1", error: new S3Error("SlowDown") },
      ],
    }),
    `<DeleteResult ${NS}><Deleted><Key>a</Key></Deleted><Deleted><Key>m</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>2</DeleteMarkerVersionId></Deleted><Deleted><Key>v</Key><VersionId>1</VersionId></Deleted><Error><Key>b</Key><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error><Error><Key>b</Key><VersionId>1</VersionId><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error></DeleteResult>`,
  ],
  [
    "quiet deletions",
    deleteResultXml({ quiet: true, deleted: [{ key: "a", versionId: undefined, markerId: undefined }], failed: [] }),
    `<DeleteResult ${NS}></DeleteResult>`,
  ],
  ["tags", taggingXml({ a: "1&2" }), `<Tagging ${NS}><TagSet><Tag><Key>a</Key><Value>1&amp;2</Value></Tag></TagSet></Tagging>`],
  [
    "object attributes",
    objectAttributesXml({
      etag: "e",
      checksum: CHECKSUM,
      parts: { total: 3, marker: 0, next: undefined, maxParts: 1000, parts: [{ number: 1, sizeBytes: 5, checksum: CHECKSUM }] },
      storageClass: "STANDARD",
      sizeBytes: 15,
    }),
    `<GetObjectAttributesResponse ${NS}><ETag>e</ETag><Checksum><ChecksumCRC32>AAAAAA==</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></Checksum><ObjectParts><PartsCount>3</PartsCount><PartNumberMarker>0</PartNumberMarker><NextPartNumberMarker>1</NextPartNumberMarker><MaxParts>1000</MaxParts><IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber><Size>5</Size><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></ObjectParts><StorageClass>STANDARD</StorageClass><ObjectSize>15</ObjectSize></GetObjectAttributesResponse>`,
  ],
];

for (const [what, xml, expected] of ANSWERS) {
  test(`answers: ${what}: the XML of S3`, () => assert.equal(xml, HEAD + expected));
}
