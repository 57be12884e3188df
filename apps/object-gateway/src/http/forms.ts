// Uploads by browser forms (POST): what of the form stands for which header, who signed it, what its policy allows, and the answer.
import type { HttpRequest, HttpResponse } from "@concord/runtime";
import {
  checkedFile,
  checkForm,
  DEFAULT_CHECKSUM,
  fieldsOf,
  percentEncode,
  postResponseXml,
  readForm,
  readPostPolicy,
  readTagging,
  isGuarded,
  S3Error,
  TAGS_PER_OBJECT_MAX,
  KEY_BYTES_MAX,
  FORM_AFTER_BYTES_MAX,
  FORM_FIELDS_BYTES_MAX,
  withFileName,
  withinBytes,
  type Caller,
  type Fields,
  type FileBytes,
  type Form,
  type Received,
  type Target,
  type Verifier,
} from "@concord/s3";
import { aclOfNew } from "./acls.ts";
import { attributesOf } from "./attributes.ts";
import { withFile } from "./bodies.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";
import { encryptionHeadersOf, encryptionOfNew, keyOf } from "./encryption.ts";
import { checkFeatures, type OnIgnored } from "./features.ts";
import { lockOfNew } from "./object-lock.ts";
import { checksumHeaders, empty, quoted, versionHeader, xml, type Header } from "./responses.ts";
import { FORM_ROUTE, type Route } from "./routes.ts";

/** A form whose signature and policy were checked; its file was not read yet. */
export interface FormCall {
  readonly caller: Caller;
  readonly via: "form" | "none";
  readonly key: string;
  readonly verified: Received;
  readonly route: Route;
  /** Cancels what was not read. */
  close(): Promise<void>;
}

interface Reading {
  readonly request: HttpRequest;
  readonly target: Target;
  readonly headers: Fields;
  readonly bucket: string;
}

/** Signed in its body, if at all. */
export function isForm(method: string, headers: Fields, { bucket, key }: Target): boolean {
  const isForBucket = method === "POST" && bucket !== undefined && key === undefined;
  return isForBucket && headers.all("content-type").some((value) => /^multipart\/form-data/i.test(value));
}

/** Reads the form up to its file: before that nothing says who sends it. Its fields have a limit, the file is not touched. */
export async function readFormCall(
  reading: Reading,
  verifier: Verifier,
  nowMs: number,
  fileBytesMax: number,
  onIgnored: OnIgnored,
): Promise<FormCall> {
  const { request, target, headers, bucket } = reading;
  checkRequest(target, headers, fileBytesMax, onIgnored);
  const form = await readForm(request.body, headers.one("content-type") ?? "");
  try {
    const signed = verifier.verifyForm(headers, target, form.fields, nowMs);
    const fields = fieldsAsUsed(form, bucket);
    const key = nameOf(fields);
    const range = signed === undefined ? ANY : checkForm(readPostPolicy(signed.policy), fields, nowMs);
    const said = headersOf(headers, fields);
    checkFeatures(FORM_ROUTE, fieldsOf([]), said, false, onIgnored);
    const success = readSuccess(fields);
    const bytes = { minBytes: range.minBytes, maxBytes: Math.min(range.maxBytes, fileBytesMax) };
    return {
      caller: signed === undefined ? { kind: "anonymous" } : { kind: "tenant", tenant: signed.tenant },
      via: signed === undefined ? "none" : "form",
      key,
      verified: { payload: { kind: "unsigned" }, headers: said },
      route: { ...FORM_ROUTE, handle: (call, context) => postObject(call, context, { file: form.file, bytes, success, target }) },
      close: form.close,
    };
  } catch (thrown) {
    await form.close();
    throw thrown;
  }
}

const ANY: FileBytes = { minBytes: 0, maxBytes: Number.MAX_SAFE_INTEGER };

/** Of the request itself: it says how long it is, and all else in its form. */
function checkRequest({ query }: Target, headers: Fields, fileBytesMax: number, onIgnored: OnIgnored): void {
  const length = headers.one("content-length");
  if (length === undefined || !/^\d{1,15}$/.test(length)) throw new S3Error("MissingContentLength");
  if (Number(length) > fileBytesMax + FORM_FIELDS_BYTES_MAX + FORM_AFTER_BYTES_MAX) throw new S3Error("EntityTooLarge");
  checkFeatures(FORM_ROUTE, query, fieldsOf([]), false, onIgnored);
  const misplaced = headers.entries.find(([name]) => isGuarded(name));
  if (misplaced !== undefined) throw new S3Error("InvalidArgument", `${misplaced[0].slice(0, 64)} of a form is one of its fields.`);
}

/** With the file's name where they ask for it; the bucket is one, for conditions. */
function fieldsAsUsed({ fields, fileName }: Form, bucket: string): Fields {
  const said = fields.one("bucket");
  if (said !== undefined && said !== bucket) throw new S3Error("InvalidArgument", "The form is for another bucket.");
  const filled = fields.entries
    .filter(([name]) => name !== "bucket")
    .map(([name, value]) => [name, withFileName(name, value, fileName)] as const);
  return fieldsOf([...filled, ["bucket", bucket]]);
}

function nameOf(fields: Fields): string {
  const key = fields.one("key");
  if (key === undefined) throw new S3Error("InvalidArgument", "Bucket POST must contain a field named 'key'.");
  if (key === "") throw new S3Error("InvalidArgument", "User key must have a length greater than 0.");
  if (Buffer.byteLength(key) > KEY_BYTES_MAX) throw new S3Error("KeyTooLongError");
  return key;
}

/** Of the request itself these say something of the client. */
const OF_REQUEST = ["host", "referer", "user-agent", "x-forwarded-for", "x-forwarded-proto"];
const OF_OBJECT = [
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-md5",
  "content-type",
  "expires",
];
const OF_SIGNATURE = /^x-amz-(?:algorithm|credential|date|signature)$/;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f]/;

/** As if the form were a PUT. Values are bytes, one character each, and nothing that would end a header. */
function headersOf(headers: Fields, fields: Fields): Fields {
  const tagging = fields.one("tagging");
  const tags = tagging === undefined ? {} : readTagging(new TextEncoder().encode(tagging), TAGS_PER_OBJECT_MAX);
  const stored = fields.entries.filter(([name]) => OF_OBJECT.includes(name) || (name.startsWith("x-amz-") && !OF_SIGNATURE.test(name)));
  const broken = [...stored, ["acl", fields.one("acl") ?? ""] as const].find(([, value]) => CONTROL.test(value));
  if (broken !== undefined) throw new S3Error("InvalidArgument", `The field ${broken[0].slice(0, 64)} has control characters.`);
  return fieldsOf([
    ...headers.entries.filter(([name]) => OF_REQUEST.includes(name)),
    ...stored.map(([name, value]) => [name, Buffer.from(value.trim()).toString("latin1")] as const),
    ...(fields.has("acl") ? [["x-amz-acl", fields.one("acl") ?? ""] as const] : []),
    ...(tagging === undefined ? [] : [["x-amz-tagging", tagQuery(tags)] as const]),
  ]);
}

const tagQuery = (tags: Readonly<Record<string, string>>): string =>
  Object.entries(tags)
    .map(([name, value]) => `${percentEncode(name)}=${percentEncode(value)}`)
    .join("&");

type Success = { readonly kind: "status"; readonly status: 200 | 201 | 204 } | { readonly kind: "redirect"; readonly url: URL };

/** Known before anything is stored. InvalidArgument for a redirect that is no address of http or https. */
function readSuccess(fields: Fields): Success {
  const redirect = fields.one("success_action_redirect") ?? fields.one("redirect");
  if (redirect !== undefined && redirect !== "") {
    const url = URL.canParse(redirect) ? new URL(redirect) : undefined;
    if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:") || CONTROL.test(redirect))
      throw new S3Error("InvalidArgument", "success_action_redirect must be an address of http or https.");
    return { kind: "redirect", url };
  }
  const status = fields.one("success_action_status");
  return { kind: "status", status: status === "200" ? 200 : status === "201" ? 201 : 204 };
}

interface Posted {
  readonly file: Form["file"];
  readonly bytes: FileBytes;
  readonly success: Success;
  readonly target: Target;
}

/** As PutObject: data first, then the row. The row is committed only when the whole form was read. */
async function postObject(call: S3Call, context: Context, { file, bytes, success, target }: Posted): Promise<HttpResponse> {
  const { bucket, key, headers, judge } = call;
  const attributes = attributesOf(headers);
  const acl = aclOfNew(call, context);
  const lock = lockOfNew(call);
  const encryption = encryptionOfNew(call, context);
  const checked = checkedFile(withinBytes(file, bytes), headers, { algorithm: DEFAULT_CHECKSUM });
  const stored = await withFile(call, context, checked, (body) =>
    context.store.putObject({ bucket, key, body, attributes, acl, lock, encryption, precondition: { judge }, by: "form" }),
  );
  const etag = quoted(stored.etag);
  const location = `${context.scheme}://${headers.one("host") ?? ""}/${target.path === "/" ? "" : `${bucket}/`}${percentEncode(key, "kept")}`;
  const said: readonly Header[] = [
    ["etag", etag],
    ...checksumHeaders(stored.checksum),
    ...versionHeader(stored.versionId),
    ...encryptionHeadersOf(stored.encryption, keyOf(encryption)),
  ];
  if (success.kind === "redirect") return empty(303, [...said, ["location", redirectTo(success.url, { bucket, key, etag })]]);
  if (success.status !== 201) return empty(success.status, [...said, ["location", location]]);
  return xml(postResponseXml({ location, bucket, key, etag: stored.etag }), [...said, ["location", location]], 201);
}

/** S3 adds what was stored to the query. */
function redirectTo(url: URL, stored: Readonly<Record<string, string>>): string {
  const before = url.hash === "" ? url.href : url.href.slice(0, -url.hash.length);
  const added = Object.entries(stored).map(([name, value]) => `${name}=${percentEncode(value)}`);
  return `${before}${url.search === "" ? "?" : "&"}${added.join("&")}${url.hash}`;
}
