// The steps of every request: target, signature, operation, features, whether the bucket allows it, then the operation itself. What
// goes wrong anywhere becomes an S3 error with the request's id; a client never sees more than that.
import { EVENTS_DOCUMENT, type BucketInfo, type EventCause } from "@concord/objects";
import {
  assert,
  ConcordError,
  toHex,
  TRACEPARENT_KEY,
  type Clock,
  type HttpHandler,
  type HttpRequest,
  type HttpResponse,
  type Log,
  type Metrics,
  type Random,
  type Span,
  type Tracer,
} from "@concord/runtime";
import {
  bucketOfHost,
  errorXml,
  fieldsOf,
  hasAclHeaders,
  parseTarget,
  refuseBody,
  S3Error,
  unsignedRequest,
  type Caller,
  type ConditionFacts,
  type Fields,
  type SignedRequest,
  type Target,
  type Unsigned,
  type Verified,
  type Verifier,
} from "@concord/s3";

import { demand, factsOf, judgeOf, ownAccess } from "./access.ts";
import { actionsOf } from "./actions.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";
import { answerPreflight, corsHeadersOf } from "./cors.ts";
import { failureOf, type Failure } from "./errors.ts";
import { checkFeatures, type OnIgnored } from "./features.ts";
import { isForm, readFormCall } from "./forms.ts";
import { checkBucketName, checkExpectedOwner } from "./request-checks.ts";
import { empty, xml, type Header } from "./responses.ts";
import { visit, type GetPublic } from "./websites.ts";
import { FORM_ROUTE, routeOf, type Level, type Route } from "./routes.ts";

const REQUEST_ID_BYTES = 8;

export interface PipelineOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly failpoint: (name: string) => void;
  readonly tracer?: Tracer | undefined;
  readonly verifier: Verifier;
  /** Buckets are also names below it. */
  readonly domain: string | undefined;
  /** Websites of buckets are names below it. */
  readonly websiteDomain: string | undefined;
  /** Throws STARTING or DRAINING. */
  readonly context: () => Context;
}

interface Asking {
  readonly requestId: string;
  /** With the bucket that the request is about. */
  readonly onBucket: (info: BucketInfo) => void;
  readonly span: Span | undefined;
}

interface Named {
  readonly kind: "preflight" | "form" | "operation" | "visit";
  /** For metrics and logs. */
  readonly operation: string;
  readonly target: Target;
  readonly route: Route | undefined;
  readonly headers: Fields;
}

/** Never rejects. */
export function s3Handler(options: PipelineOptions): HttpHandler {
  const labels = labelCache();
  return async (request) => {
    const { clock, log, metrics } = options;
    const requestId = toHex(options.random.bytes(REQUEST_ID_BYTES)).toUpperCase();
    const startedMs = clock.monotonicMs();
    let named: Named | undefined;
    let span: Span | undefined;
    let response: HttpResponse;
    let code = "OK";
    let failed: string | undefined;
    let cors: readonly Header[] = [];
    const onBucket = (info: BucketInfo): void => void (cors = corsHeadersOf(info, request));
    try {
      named = nameOf(request, options);
      if (options.tracer !== undefined) span = spanOf(options.tracer, named);
      response = await handlersOf[named.kind](request, named, { requestId, onBucket, span }, options);
    } catch (thrown) {
      const failure = failureOf(thrown, named?.headers);
      code = failure.error.code;
      failed = code;
      if (failure.fault) log.error("request failed", { requestId, operation: named?.operation, stack: stackOf(thrown) });
      response = errorResponse(failure, named?.target, requestId);
    }
    const operation = named?.operation ?? "Unknown";
    metrics.count("s3_requests_total", 1, labels(operation, code));
    metrics.observe("s3_request_seconds", (clock.monotonicMs() - startedMs) / 1000, labels(operation));
    log.debug("request", { requestId, operation, code, status: response.status, method: request.method, peer: request.peer });
    if (span !== undefined) response = endsWithBody(response, span, requestId, failed);
    return { ...response, headers: [["x-amz-request-id", requestId], ...response.headers, ...cors] };
  };
}

/** Answers every request with 503 ServiceUnavailable, for the time in which no gateway is there. */
export function absentHandler({ random, metrics }: Pick<PipelineOptions, "random" | "metrics">): HttpHandler {
  const labels = labelCache();
  return async () => {
    const requestId = toHex(random.bytes(REQUEST_ID_BYTES)).toUpperCase();
    const error = new S3Error("ServiceUnavailable", undefined, { retryAfterSeconds: 1 });
    metrics.count("s3_requests_total", 1, labels("Unknown", error.code));
    const response = errorResponse(failureOf(error, undefined), undefined, requestId);
    return { ...response, headers: [["x-amz-request-id", requestId], ...response.headers] };
  };
}

/** The caller's traceparent decides, as in gRPC; one that was sent twice counts as none. */
function spanOf(tracer: Tracer, { operation, headers }: Named): Span | undefined {
  const [traceparent, second] = headers.all(TRACEPARENT_KEY);
  const name = `s3 ${operation}`;
  const isOne = traceparent !== undefined && second === undefined;
  return isOne ? tracer.follow(name, "server", traceparent) : tracer.begin(name, "server");
}

/** A download is a part of its request. */
function endsWithBody(response: HttpResponse, span: Span, requestId: string, failed: string | undefined): HttpResponse {
  span.set("s3.request_id", requestId);
  span.set("http.response.status_code", response.status);
  const { body } = response;
  if (body === undefined || body instanceof Uint8Array) {
    span.end(failed);
    return response;
  }
  return { ...response, body: tracedBody(body, span, span.child("object body")) };
}

async function* tracedBody(body: AsyncIterable<Uint8Array>, request: Span, span: Span): AsyncGenerator<Uint8Array, void, undefined> {
  let failed: string | undefined = "CANCELLED";
  try {
    yield* body;
    failed = undefined;
  } finally {
    span.end(failed);
    request.end(failed);
  }
}

function tracedContext(context: Context, span: Span | undefined): Context {
  return span === undefined ? context : { ...context, store: context.store.tracedBy(span) };
}

type Handler = (request: HttpRequest, named: Named, asking: Asking, options: PipelineOptions) => Promise<HttpResponse>;

const handlersOf: Readonly<Record<Named["kind"], Handler>> = {
  preflight: async (_request, named, _asking, options) => await answerPreflight(named, options.context()),
  form: answerForm,
  operation: answer,
  visit: answerVisit,
};

function nameOf(request: HttpRequest, { domain, websiteDomain }: PipelineOptions): Named {
  const { method } = request;
  const headers = fieldsOf(request.headers);
  const host = headers.one("host");
  const isVisit = bucketOfHost(host, websiteDomain) !== undefined;
  const target = parseTarget(request.target, host, isVisit ? websiteDomain : domain);
  const copies = headers.has("x-amz-copy-source") || target.query.has("x-amz-copy-source");
  if (method === "OPTIONS") return { kind: "preflight", operation: "Preflight", target, headers, route: undefined };
  if (isVisit) return { kind: "visit", operation: "VisitWebsite", target, headers, route: undefined };
  if (isForm(method, headers, target)) return { kind: "form", operation: FORM_ROUTE.operation, target, headers, route: undefined };
  const route = routeOf(method, levelOf(target), target.query, copies);
  return { kind: "operation", operation: route?.operation ?? "Unknown", target, headers, route };
}

function levelOf({ bucket, key }: Target): Level {
  if (bucket === undefined) return "service";
  return key === undefined ? "bucket" : "object";
}

const countIgnored =
  (metrics: Metrics): OnIgnored =>
  (kind) =>
    metrics.count("s3_ignored_fields_total", 1, { kind });

async function answer(
  request: HttpRequest,
  { target, route, headers }: Named,
  { requestId, onBucket, span }: Asking,
  options: PipelineOptions,
): Promise<HttpResponse> {
  const { caller, verified } = identify({ method: request.method, headers }, target, options);
  const isAboutBucket = route !== undefined && route.level !== "service" && !route.makesBucket;
  if (caller.kind === "anonymous" && !isAboutBucket) throw new S3Error("AccessDenied", "Anonymous access is not allowed.");
  if (route === undefined) throw unknownOperation(request.method, target);
  checkFeatures(route, target.query, verified.headers, verified.via === "query", countIgnored(options.metrics));
  if (!route.body) refuseBody(verified);
  const { bucket = "", key = "", query } = target;
  const asked = { requestId, request, bucket, key, query, headers: verified.headers, caller, verified };
  if (route.level !== "service") checkBucketName(bucket);
  const context = tracedContext(options.context(), span);
  if (!isReading(route)) checkWrites(context);
  if (caller.kind === "tenant") context.rates.take(caller.tenant);
  const { operation } = route;
  const said = { caller, operation, via: verified.via, peer: request.peer, query, headers: verified.headers, nowMs: options.clock.nowMs() };
  let known: ConditionFacts | undefined;
  const facts = (): ConditionFacts => (known ??= factsOf(said, context.access.options));
  const response = await (route.level === "service" || route.makesBucket
    ? route.handle({ ...asked, facts, ...ownOf(caller) }, { ...context, store: context.store.until(request.signal) })
    : handleInBucket({ ...asked, facts }, route, context, onBucket));
  if (!isReading(route)) options.failpoint("gateway:before-answer");
  return response;
}

/** Signed in its fields: they are read before it is known who sends it, the file only when it is allowed. */
async function answerForm(
  request: HttpRequest,
  { target, headers }: Named,
  { requestId, onBucket, span }: Asking,
  options: PipelineOptions,
): Promise<HttpResponse> {
  const { bucket = "", query } = target;
  checkBucketName(bucket);
  const context = tracedContext(options.context(), span);
  checkWrites(context);
  const nowMs = options.clock.nowMs();
  const onIgnored = countIgnored(options.metrics);
  const form = await readFormCall({ request, target, headers, bucket }, options.verifier, nowMs, context.partBytesMax, onIgnored);
  try {
    const { caller, via, key, verified, route } = form;
    if (caller.kind === "tenant") context.rates.take(caller.tenant);
    const said = { caller, operation: route.operation, via, peer: request.peer, query, headers: verified.headers, nowMs };
    const facts = (): ConditionFacts => factsOf(said, context.access.options);
    const asked = { requestId, request, bucket, key, query, headers: verified.headers, caller, verified, facts };
    const response = await handleInBucket(asked, route, context, onBucket);
    options.failpoint("gateway:before-answer");
    return response;
  } finally {
    await form.close();
  }
}

const PAGES = { GET: routeOf("GET", "object", fieldsOf([]), false)!, HEAD: routeOf("HEAD", "object", fieldsOf([]), false)! } as const;
/** What a visitor's request may ask, and what policies look at. */
const PAGE_HEADERS: ReadonlySet<string> = new Set(
  "range if-range if-match if-none-match if-modified-since if-unmodified-since referer user-agent x-forwarded-for x-forwarded-proto".split(
    " ",
  ),
);

/** A browser's: what everyone may get, whatever else the request says. */
async function answerVisit(
  request: HttpRequest,
  { target, headers: sent }: Named,
  { requestId, onBucket, span }: Asking,
  options: PipelineOptions,
): Promise<HttpResponse> {
  const { bucket = "" } = target;
  checkBucketName(bucket);
  const context = tracedContext(options.context(), span);
  const [caller, query] = [{ kind: "anonymous" } as const, fieldsOf([])];
  const headers = fieldsOf(sent.entries.filter(([name]) => PAGE_HEADERS.has(name)));
  const said = { caller, operation: "GetObject", via: "none", peer: request.peer, query, headers, nowMs: options.clock.nowMs() } as const;
  const facts = (): ConditionFacts => factsOf(said, context.access.options);
  const get: GetPublic = (key, how) => {
    const seen = how === "as asked" ? headers : fieldsOf([]);
    const verified = unsignedRequest(seen, { ...target, query });
    assert(verified !== undefined, "what could be a signature was left out");
    const asked = { requestId, request, bucket, key, query, headers: seen, caller, verified, facts };
    const isHead = how === "headers alone" || request.method === "HEAD";
    return handleInBucket(asked, isHead ? PAGES.HEAD : PAGES.GET, context, onBucket);
  };
  return await visit({ target, method: request.method, host: sent.one("host") ?? "", get }, context);
}

/** A request without any signature may do what everyone may: only with buckets that are there, and no more than one of its own operations. */
function identify(
  request: SignedRequest,
  target: Target,
  { verifier, clock }: PipelineOptions,
): { readonly caller: Caller; readonly verified: Verified | Unsigned } {
  const unsigned = unsignedRequest(request.headers, target);
  if (unsigned !== undefined) return { caller: { kind: "anonymous" }, verified: unsigned };
  const verified = verifier.verify(request, target, clock.nowMs());
  return { caller: { kind: "tenant", tenant: verified.tenant }, verified };
}

/** Of a request about no bucket that is there: the caller is a tenant, and owns what it makes. */
function ownOf(caller: Caller): Pick<S3Call, "tenant" | "access" | "judge" | "settings"> {
  assert(caller.kind === "tenant", "anonymous requests are about buckets");
  return { tenant: caller.tenant, access: ownAccess(caller.tenant), judge: undefined, settings: undefined };
}

const isReading = ({ method }: Route): boolean => method === "GET" || method === "HEAD";

function checkWrites({ writes }: Context): void {
  if (writes.kind === "taken") return;
  throw new S3Error("ServiceUnavailable", `Only reads are served: ${writes.reason}.`);
}

/** Judged by the bucket's settings as they are now; a write is refused if they were changed before it committed. */
async function handleInBucket(
  asked: Omit<S3Call, "tenant" | "access" | "judge" | "settings">,
  route: Route,
  context: Context,
  onBucket: Asking["onBucket"],
): Promise<HttpResponse> {
  const { bucket, caller, query, headers } = asked;
  const info = await bucketOf(asked, context);
  onBucket(info);
  // What is open to all is its owner's to pay for.
  if (caller.kind === "anonymous") context.rates.take(info.tenant);
  const access = context.access.accessOf(info);
  const key = route.level === "object" ? asked.key : undefined;
  const needed = actionsOf(route.operation, {
    version: query.has("versionId"),
    tags: headers.has("x-amz-tagging"),
    acl: hasAclHeaders(headers),
  });
  for (const action of needed.plain) demand(access, asked, action, key);
  if (OWNERS_ALONE.has(route.operation) && !isOwner(caller, info)) {
    throw new S3Error("MethodNotAllowed", "Only the bucket's owner reads and changes its policy, whatever the policy allows.");
  }
  for (const action of needed.ofNew) demand(access, asked, action, key, { object: { kind: "new" } });
  const judge = judgeOf(access, asked, needed.judged, asked.key);
  const call = { ...asked, access, judge, settings: info.settings, tenant: caller.kind === "tenant" ? caller.tenant : info.tenant };
  checkExpectedOwner(call, info, "x-amz-expected-bucket-owner");
  try {
    if (isReading(route)) return await route.handle(call, context);
    const store = context.store.judgedBy(bucket, info.settings.number, causeOf(asked, info));
    return await route.handle(call, { ...context, store: route.level === "bucket" ? store.until(asked.request.signal) : store });
  } catch (thrown) {
    const isAbsent = thrown instanceof ConcordError && thrown.code === "OBJECT_UNKNOWN";
    // Only who may list the bucket learns which keys it does not have.
    if (isAbsent) demand(access, call, "s3:ListBucket", undefined);
    throw thrown;
  }
}

/** Operations that no policy grants to another account, as in S3: a policy that allows everything does not hand over itself. */
const OWNERS_ALONE: ReadonlySet<string> = new Set(["GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"]);
const isOwner = (caller: Caller, { tenant }: BucketInfo): boolean => caller.kind === "tenant" && caller.tenant === tenant;

/** As events name it; undefined: the bucket never had event rules. */
function causeOf(
  { caller, facts, requestId }: Pick<S3Call, "caller" | "facts" | "requestId">,
  { settings }: BucketInfo,
): EventCause | undefined {
  if (settings.documents[EVENTS_DOCUMENT] === undefined) return undefined;
  return { principal: caller.kind === "tenant" ? caller.tenant : "anonymous", address: facts()["aws:sourceip"] ?? "", requestId };
}

/** AccessDenied instead of NoSuchBucket for an anonymous caller. */
async function bucketOf({ bucket, caller }: Pick<S3Call, "bucket" | "caller">, { store }: Context): Promise<BucketInfo> {
  try {
    return await store.headBucket(bucket);
  } catch (thrown) {
    const isAbsent = thrown instanceof ConcordError && thrown.code === "BUCKET_UNKNOWN";
    if (isAbsent && caller.kind === "anonymous") throw new S3Error("AccessDenied", undefined, { cause: thrown });
    throw thrown;
  }
}

/** The method does not fit the resource, or S3 has an operation that Concord lacks. */
function unknownOperation(method: string, target: Target): S3Error {
  if (target.query.entries.length > 0) return new S3Error("NotImplemented");
  const isForBucket = method === "POST" && target.key === undefined && target.bucket !== undefined;
  if (isForBucket) return new S3Error("PreconditionFailed", "Bucket POST must be of the enclosure-type multipart/form-data");
  return new S3Error("MethodNotAllowed");
}

function errorResponse({ error, headers }: Failure, target: Target | undefined, requestId: string): HttpResponse {
  if (error.status === 304) return empty(304, headers);
  return xml(errorXml(error, { resource: target?.path ?? "", requestId }), headers, error.status);
}

/** The same objects again and again: the registry knows labels by identity. */
function labelCache(): (operation: string, code?: string) => Readonly<Record<string, string>> {
  const cache = new Map<string, Readonly<Record<string, string>>>();
  return (operation, code) => {
    const key = `${operation} ${code ?? ""}`;
    let found = cache.get(key);
    if (found === undefined) {
      found = code === undefined ? { operation } : { operation, code };
      cache.set(key, found);
    }
    return found;
  };
}

const stackOf = (thrown: unknown): string => (thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));
