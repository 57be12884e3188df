// Requests as the real SDKs make them: a request handler that keeps what it is given and answers nothing.
import { Readable } from "node:stream";

export interface Captured {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** What SDKs hand to their request handler. */
interface SdkRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string | readonly string[] | null>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export const SDK_CREDENTIALS = { accessKeyId: "AKIDTEST", secretAccessKey: "sdk-secret" };

/** Configuration of a client whose requests end here; `take` gives the last one. */
export function capturing(): {
  readonly config: {
    region: string;
    endpoint: string;
    forcePathStyle: boolean;
    maxAttempts: number;
    credentials: typeof SDK_CREDENTIALS;
    requestHandler: { handle(request: unknown): Promise<never> };
  };
  take(send: Promise<unknown>): Promise<Captured>;
} {
  let captured: Captured | undefined;
  const handle = async (request: unknown): Promise<never> => {
    const sent = request as SdkRequest;
    captured = {
      method: sent.method,
      target: `${sent.path}${queryText(sent.query)}`,
      headers: Object.entries(sent.headers).map(([name, value]) => [name.toLowerCase(), value] as const),
      body: await bytesOf(sent.body),
    };
    throw new Error("captured");
  };
  return {
    config: {
      region: "eu-test-1",
      endpoint: "https://s3.example.test",
      forcePathStyle: true,
      maxAttempts: 1,
      credentials: SDK_CREDENTIALS,
      requestHandler: { handle },
    },
    async take(send) {
      captured = undefined;
      await send.then(
        () => undefined,
        () => undefined,
      );
      if (captured === undefined) throw new Error(`the SDK sent nothing: ${String(await send.catch((error: unknown) => error))}`);
      return captured;
    },
  };
}

function queryText(query: SdkRequest["query"]): string {
  const escape = (text: string): string =>
    encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  const parts = Object.entries(query).flatMap(([name, value]) => {
    const values = value === null ? [""] : typeof value === "string" ? [value] : value;
    return values.map((one) => `${escape(name)}=${escape(one)}`);
  });
  return parts.length === 0 ? "" : `?${parts.join("&")}`;
}

async function bytesOf(body: unknown): Promise<Uint8Array> {
  if (body === undefined || body === null) return new Uint8Array(0);
  if (typeof body === "string") return Buffer.from(body);
  if (body instanceof Uint8Array) return body;
  if (!(body instanceof Readable)) throw new Error("a body of an unknown kind");
  const blobs: Buffer[] = [];
  for await (const blob of body) blobs.push(Buffer.from(blob as Uint8Array));
  return Buffer.concat(blobs);
}
