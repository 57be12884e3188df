// Cross-origin requests of browsers: the rules of a bucket, what preflights are answered, and which headers other answers get.
import type { BucketInfo } from "@concord/objects";
import { ConcordError, type HttpRequest, type HttpResponse } from "@concord/runtime";
import {
  CORS_METHODS,
  CORS_VARY,
  corsHeaders,
  corsXml,
  readAskedHeaders,
  readCorsRules,
  refuseBody,
  S3Error,
  unsignedRequest,
  type CorsRule,
  type Fields,
  type Target,
} from "@concord/s3";
import { readDocument } from "./bodies.ts";
import type { Context, Operation } from "./context.ts";
import { documentCache } from "./document-cache.ts";
import { empty, xml, type Header } from "./responses.ts";

/** Name of a document of a bucket's settings. */
const CORS = "cors";

/** NoSuchCORSConfiguration. */
export const getBucketCors: Operation = async ({ bucket }, { store }) => {
  const rules = rulesOf(await store.headBucket(bucket));
  if (rules === undefined) throw new S3Error("NoSuchCORSConfiguration");
  return xml(corsXml(rules));
};

/** MalformedXML, InvalidRequest. In effect for every request that begins after the answer. */
export const putBucketCors: Operation = async (call, context) => {
  const rules = readCorsRules(await readDocument(call, context));
  await context.store.setBucketDocument({ bucket: call.bucket, name: CORS, text: JSON.stringify(rules) });
  return empty(200);
};

/** Success also when there was none. */
export const deleteBucketCors: Operation = async ({ bucket }, { store }) => {
  await store.setBucketDocument({ bucket, name: CORS, text: undefined });
  return empty(204);
};

interface Preflight {
  readonly target: Target;
  readonly headers: Fields;
}

/** BadRequest, AccessForbidden: the same whether the bucket has no such rule, none at all, or is not there. */
export async function answerPreflight({ target, headers }: Preflight, { store }: Context): Promise<HttpResponse> {
  const unsigned = unsignedRequest(headers, target);
  if (unsigned !== undefined) refuseBody(unsigned);
  const origin = headers.one("origin");
  const method = headers.one("access-control-request-method");
  if (origin === undefined) throw new S3Error("BadRequest", "Insufficient information. Origin request header needed.");
  if (!CORS_METHODS.some((known) => known === method)) throw new S3Error("BadRequest", "Invalid Access-Control-Request-Method.");
  const asked = readAskedHeaders(headers.one("access-control-request-headers"));
  if (asked === undefined) throw new S3Error("BadRequest", "Invalid Access-Control-Request-Headers.");
  const rules = target.bucket === undefined ? [] : await rulesIfAny(target.bucket, store);
  const allowed = corsHeaders(rules, { origin, method: method!, headers: asked });
  if (allowed === undefined) throw new S3Error("AccessForbidden");
  return empty(200, [...allowed, CORS_VARY]);
}

async function rulesIfAny(bucket: string, store: Context["store"]): Promise<readonly CorsRule[]> {
  try {
    return rulesOf(await store.headBucket(bucket)) ?? [];
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.kind === "rejected") return [];
    throw thrown;
  }
}

/** Of the answer to any other request about the bucket, also of an error: a page may read its code. */
export function corsHeadersOf(info: BucketInfo, { method, headers }: HttpRequest): readonly Header[] {
  const rules = rulesOf(info);
  if (rules === undefined) return [];
  const origin = headers.find(([name]) => name === "origin")?.[1];
  const allowed = origin === undefined ? undefined : corsHeaders(rules, { origin, method, headers: [] });
  return [...(allowed ?? []), CORS_VARY];
}

const parsed = documentCache((text) => JSON.parse(text) as readonly CorsRule[]);

/** Undefined: the bucket has none. */
function rulesOf({ settings }: BucketInfo): readonly CorsRule[] | undefined {
  const text = settings.documents[CORS];
  return text === undefined ? undefined : parsed(text);
}
