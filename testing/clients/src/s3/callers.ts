// Clients that call one operation at a time: two generations of the JavaScript SDK, and requests written by hand.
import { createHmac } from "node:crypto";
import { request as httpRequest } from "node:http";
import * as sdk2026 from "@aws-sdk/client-s3";
import { signRequest } from "@concord/s3";
import * as sdk2024 from "aws-sdk-client-s3-2024";
import { ACCESS_KEY, REGION } from "./gateway-program.ts";
import { fill, type Learned, type OperationCase, type World } from "./operation.ts";

export interface Outcome {
  /** "works", or status and code of the error: "501 NotImplemented". */
  readonly answer: string;
  /** Everything that the answer said, as text. */
  readonly text: string;
  readonly learned: Partial<World>;
}

export interface Caller {
  readonly name: string;
  /** Undefined: this client has no such operation. */
  call(one: OperationCase, world: World): Promise<Outcome> | undefined;
  close(): void;
}

export const WORKS = "works";
export const RAW = "raw requests";

type Command = new (input: object) => object;
interface AnySdk {
  readonly S3Client: new (config: object) => { send(command: object): Promise<unknown>; destroy(): void };
}

export const operationsOfReference = (): readonly string[] =>
  Object.keys(sdk2026)
    .filter((name) => /^[A-Z]\w*Command$/.test(name))
    .map((name) => name.slice(0, -"Command".length));

export function callersOf(address: string): readonly Caller[] {
  return [
    sdkCaller("SDK for JavaScript 3.1161", sdk2026 as unknown as AnySdk, address),
    sdkCaller("SDK for JavaScript 3.712", sdk2024 as unknown as AnySdk, address),
    { name: RAW, call: (one, world) => callRaw(address, one, world), close: () => undefined },
  ];
}

function sdkCaller(name: string, sdk: AnySdk, address: string): Caller {
  const { accessKeyId, secretAccessKey } = ACCESS_KEY;
  const client = new sdk.S3Client({
    endpoint: `http://${address}`,
    region: REGION,
    forcePathStyle: true,
    disableHostPrefix: true,
    maxAttempts: 1,
    credentials: { accessKeyId, secretAccessKey },
  });
  return {
    name,
    call(one, world) {
      const commands = sdk as unknown as Readonly<Record<string, Command | undefined>>;
      const Sent = commands[`${one.name}Command`];
      if (Sent === undefined) return undefined;
      return callSdk(() => client.send(new Sent({ Bucket: world.bucket, Key: "k", ...one.input(world) })), one.learns);
    },
    close: () => client.destroy(),
  };
}

interface Streamed {
  transformToString(): Promise<string>;
}

async function callSdk(send: () => Promise<unknown>, learns: Learned | undefined): Promise<Outcome> {
  try {
    const { $metadata: _, Body, ...said } = (await send()) as { $metadata: object; Body?: Streamed } & Record<string, unknown>;
    const text = `${JSON.stringify(said)}${Body === undefined ? "" : await Body.transformToString()}`;
    return { answer: WORKS, text, learned: learns === undefined ? {} : { [learns.as]: memberOf(said, learns.member) } };
  } catch (thrown) {
    const { name, $metadata } = thrown as { readonly name: string; readonly $metadata?: { readonly httpStatusCode?: number } };
    if ($metadata?.httpStatusCode === undefined) throw thrown;
    return { answer: `${$metadata.httpStatusCode} ${name}`, text: "", learned: {} };
  }
}

function memberOf(said: object, path: string): string {
  const found = path.split(".").reduce<unknown>((value, name) => (value as Readonly<Record<string, unknown>>)[name], said);
  return String(found).replaceAll('"', "");
}

async function callRaw(address: string, one: OperationCase, world: World): Promise<Outcome> {
  const [method, target] = fill(one.request, world).split(" ") as [string, string];
  const { body, headers } = one.form ? form(world) : signed(address, method, target, one, world);
  const { status, text } = await send(address, { method, path: target, headers, body });
  const answer = status < 300 ? WORKS : `${status} ${/<Code>(\w+)</.exec(text)?.[1] ?? ""}`.trim();
  const found = one.learns?.raw
    .exec(text)
    ?.slice(1)
    .find((value) => value !== undefined);
  return { answer, text, learned: one.learns === undefined || found === undefined ? {} : { [one.learns.as]: found } };
}

/** For clients that cannot. */
export async function makeBucket(address: string, bucket: string): Promise<void> {
  const path = `/${bucket}`;
  const body = new Uint8Array(0);
  const headers = signRequest({ method: "PUT", target: path, host: address, body }, { ...ACCESS_KEY, region: REGION }, Date.now());
  const { status, text } = await send(address, { method: "PUT", path, headers, body });
  if (status !== 200) throw new Error(text);
}

interface ToSend {
  readonly body: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

function signed(host: string, method: string, target: string, one: OperationCase, world: World): ToSend {
  const body = Buffer.from(fill(one.body, world));
  const headers = Object.fromEntries(Object.entries(one.headers).map(([name, value]) => [name, fill(value, world)]));
  // A preflight comes from a browser that knows no key.
  if (method === "OPTIONS") return { body, headers };
  return {
    body,
    headers: { ...headers, ...signRequest({ method, target, host, body, headers }, { ...ACCESS_KEY, region: REGION }, Date.now()) },
  };
}

const hmac = (key: Uint8Array | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/** A browser's upload, signed by its policy. */
function form({ bucket }: World): ToSend {
  const now = Date.now();
  const timestamp = new Date(now).toISOString().replace(/[-:]|\.\d{3}/g, "");
  const date = timestamp.slice(0, 8);
  const fields = {
    key: "of-a-form",
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": `${ACCESS_KEY.accessKeyId}/${date}/${REGION}/s3/aws4_request`,
    "x-amz-date": timestamp,
  };
  const conditions = [{ bucket }, ...Object.entries(fields).map(([name, value]) => ({ [name]: value }))];
  const policy = Buffer.from(JSON.stringify({ expiration: new Date(now + 60_000).toISOString(), conditions })).toString("base64");
  const scope = [date, REGION, "s3", "aws4_request"];
  const key = scope.reduce<Uint8Array | string>((last, part) => hmac(last, part), `AWS4${ACCESS_KEY.secretAccessKey}`);
  const all = { ...fields, policy, "x-amz-signature": hmac(key, policy).toString("hex"), file: "of a form" };
  const boundary = "----aBoundary";
  const parts = Object.entries(all).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const body = Buffer.from(`${parts.join("")}--${boundary}--\r\n`);
  return { body, headers: { "content-type": `multipart/form-data; boundary=${boundary}` } };
}

function send(
  address: string,
  { method, path, headers, body }: ToSend & { readonly method: string; readonly path: string },
): Promise<{ readonly status: number; readonly text: string }> {
  const [host, port] = address.split(":") as [string, string];
  return new Promise((done, reject) => {
    const length = { "content-length": String(body.length) };
    const options = { host, port, method, path, headers: { ...headers, ...(method === "GET" ? {} : length) }, agent: false };
    const sent = httpRequest(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const lines = Object.entries(response.headers).map(([name, value]) => `${name}: ${String(value)}`);
        done({ status: response.statusCode!, text: `${lines.join("\n")}\n\n${Buffer.concat(chunks).toString()}` });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
