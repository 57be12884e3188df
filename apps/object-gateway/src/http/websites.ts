// A bucket as a website: its settings, and what browsers are answered below the domain of websites. A website has no rights of its own: every
// object that it shows is one that everyone may get.
import { REDIRECT_HEADER, type BucketInfo } from "@concord/objects";
import { ConcordError, type HttpResponse } from "@concord/runtime";
import {
  encodeKey,
  escapeXml,
  locationOf,
  readWebsite,
  routingRuleFor,
  S3Error,
  websiteXml,
  type RoutingRule,
  type Target,
  type Website,
} from "@concord/s3";
import { readDocument } from "./bodies.ts";
import type { Context, Operation } from "./context.ts";
import { documentCache } from "./document-cache.ts";
import { failureOf } from "./errors.ts";
import { empty, xml, type Header } from "./responses.ts";

/** Name of a document of a bucket's settings. */
const WEBSITE = "website";

/** NoSuchWebsiteConfiguration. */
export const getBucketWebsite: Operation = async ({ bucket }, { store }) => {
  const website = websiteOf(await store.headBucket(bucket));
  if (website === undefined) throw new S3Error("NoSuchWebsiteConfiguration");
  return xml(websiteXml(website));
};

/** MalformedXML, InvalidArgument, InvalidRequest. Shown from the answer on, as far as everyone may get the bucket's objects. */
export const putBucketWebsite: Operation = async (call, context) => {
  const website = readWebsite(await readDocument(call, context));
  await context.store.setBucketDocument({ bucket: call.bucket, name: WEBSITE, text: JSON.stringify(website) });
  return empty(200);
};

/** Success also when there was none. */
export const deleteBucketWebsite: Operation = async ({ bucket }, { store }) => {
  await store.setBucketDocument({ bucket, name: WEBSITE, text: undefined });
  return empty(204);
};

const parsed = documentCache((text) => JSON.parse(text) as Website);

/** Undefined: the bucket is none. */
function websiteOf({ settings }: BucketInfo): Website | undefined {
  const text = settings.documents[WEBSITE];
  return text === undefined ? undefined : parsed(text);
}

/** Gets an object for an anonymous caller, or only its headers: AccessDenied, OBJECT_UNKNOWN. Plain: without the range and the conditions of the request. */
export type GetPublic = (key: string, how: "as asked" | "plain" | "headers alone") => Promise<HttpResponse>;

export interface Visit {
  readonly target: Target;
  readonly method: string;
  /** Of the request. */
  readonly host: string;
  readonly get: GetPublic;
}

type Documents = Extract<Website, { kind: "documents" }>;

/** NoSuchWebsiteConfiguration also where there is no such bucket: a visitor does not learn which are there. Rejects with what is no page. */
export async function visit(asked: Visit, { store, scheme }: Pick<Context, "store" | "scheme">): Promise<HttpResponse> {
  const { target, method, host } = asked;
  if (method !== "GET" && method !== "HEAD") return errorPage(new S3Error("MethodNotAllowed"), [["allow", "GET, HEAD"]]);
  const website = await websiteIfAny(target.bucket!, store);
  if (website === undefined) return errorPage(new S3Error("NoSuchWebsiteConfiguration"));
  const key = target.key ?? "";
  const to = ({ redirect, prefix }: Pick<RoutingRule, "redirect" | "prefix">): HttpResponse =>
    empty(redirect.status, [["location", locationOf(redirect, prefix, { key, host, scheme })], NO_BODY]);
  if (website.kind === "redirect") return to(website);
  const before = routingRuleFor(website.rules, key, undefined);
  if (before !== undefined) return to(before);
  try {
    return await pageOf(asked, isFolder(key) ? `${key}${website.index}` : key);
  } catch (thrown) {
    const { error, headers } = failureOf(thrown, undefined);
    if (error.status < FAILED_STATUS_MIN || error.status >= FAULT_STATUS_MIN) throw thrown;
    if (!isFolder(key) && (await hasIndex(asked, website, key))) return empty(302, [["location", `/${encodeKey(key)}/`], NO_BODY]);
    const after = routingRuleFor(website.rules, key, error.status);
    if (after !== undefined) return to(after);
    return (await ownErrorPage(asked, website, error)) ?? errorPage(error, headers);
  }
}

/** The object's own redirect comes before its bytes, and before what ranges and conditions of the request say of them. */
async function pageOf({ get }: Visit, key: string): Promise<HttpResponse> {
  let page: HttpResponse;
  try {
    page = await get(key, "as asked");
  } catch (thrown) {
    if (!JUDGED_STATUSES.includes(failureOf(thrown, undefined).error.status)) throw thrown;
    const moved = redirectOf(await get(key, "headers alone"));
    if (moved === undefined) throw thrown;
    return moved;
  }
  const moved = redirectOf(page);
  if (moved !== undefined) await abandon(page);
  return moved ?? page;
}

const MOVED = 301;
/** Of an object that is there: not modified, a failed condition, a range behind its end. */
const JUDGED_STATUSES: readonly number[] = [304, 412, 416];

function redirectOf({ headers }: HttpResponse): HttpResponse | undefined {
  const location = headers.find(([name]) => name === REDIRECT_HEADER)?.[1];
  return location === undefined ? undefined : empty(MOVED, [["location", location], NO_BODY]);
}

/** An answer that is not sent: ends what its body holds. */
async function abandon({ body }: HttpResponse): Promise<void> {
  if (body !== undefined && !(body instanceof Uint8Array)) await body[Symbol.asyncIterator]().return?.();
}

const FAILED_STATUS_MIN = 400;
const FAULT_STATUS_MIN = 500;
const NO_BODY: Header = ["content-length", "0"];
const isFolder = (key: string): boolean => key === "" || key.endsWith("/");

async function websiteIfAny(bucket: string, store: Context["store"]): Promise<Website | undefined> {
  try {
    return websiteOf(await store.headBucket(bucket));
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.kind === "rejected") return undefined;
    throw thrown;
  }
}

/** Undefined: it cannot be had, whatever the reason of the client's kind. */
async function ifPossible(response: Promise<HttpResponse>): Promise<HttpResponse | undefined> {
  try {
    return await response;
  } catch (thrown) {
    if (failureOf(thrown, undefined).error.status >= FAULT_STATUS_MIN) throw thrown;
    return undefined;
  }
}

const hasIndex = async ({ get }: Visit, { index }: Documents, key: string): Promise<boolean> =>
  (await ifPossible(get(`${key}/${index}`, "headers alone"))) !== undefined;

/** The owner's page, under the status of what failed. */
async function ownErrorPage({ get }: Visit, { error: key }: Documents, { status }: S3Error): Promise<HttpResponse | undefined> {
  const page = key === undefined ? undefined : await ifPossible(get(key, "plain"));
  return page === undefined ? undefined : { ...page, status };
}

const encoder = new TextEncoder();

function errorPage({ status, code, message }: S3Error, headers: readonly Header[] = []): HttpResponse {
  const items = `<ul><li>Code: ${escapeXml(code)}</li><li>Message: ${escapeXml(message)}</li></ul>`;
  const body = encoder.encode(`<!doctype html><html><head><title>${status}</title></head><body><h1>${status}</h1>${items}</body></html>\n`);
  return { status, headers: [["content-type", "text/html; charset=utf-8"], ["content-length", String(body.length)], ...headers], body };
}
