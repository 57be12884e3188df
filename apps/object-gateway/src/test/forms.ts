// Browser forms written by hand, signed with a policy. From the description of POST uploads, not from our reader.
import { createHmac } from "node:crypto";
import { send, type Answer } from "./http-client.ts";
import { timestampOf, type AccessKey } from "./signing.ts";

export interface FormPlan {
  /** Undefined: neither policy nor signature. */
  readonly key?: AccessKey;
  /** Besides those of the signature's own fields and of the bucket. */
  readonly conditions?: readonly unknown[];
  readonly expiresMs?: number;
  readonly fields?: Readonly<Record<string, string>>;
  readonly file?: string | Uint8Array;
  readonly fileName?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the bucket that is signed. */
  readonly target?: string;
  /** Of a finished body: cut off there, the length that is announced cut too. */
  readonly cutBytes?: number;
}

const hmac = (key: Uint8Array | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/** The fields that a server makes for a browser. */
export function signedFields(bucket: string, plan: FormPlan): Readonly<Record<string, string>> {
  const { key, conditions = [], expiresMs = Date.now() + 60_000 } = plan;
  if (key === undefined) return {};
  const timestamp = timestampOf(Date.now());
  const date = timestamp.slice(0, 8);
  const own = {
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": `${key.accessKeyId}/${date}/us-east-1/s3/aws4_request`,
    "x-amz-date": timestamp,
  };
  const all = [...conditions, { bucket }, ...Object.entries(own).map(([name, value]) => ({ [name]: value }))];
  const policy = Buffer.from(JSON.stringify({ expiration: new Date(expiresMs).toISOString(), conditions: all })).toString("base64");
  const signing = [date, "us-east-1", "s3", "aws4_request"].reduce<Uint8Array | string>(
    (last, one) => hmac(last, one),
    `AWS4${key.secretAccessKey}`,
  );
  return { ...own, policy, "x-amz-signature": hmac(signing, policy).toString("hex") };
}

export function postForm(address: string, bucket: string, plan: FormPlan): Promise<Answer> {
  const { fields = {}, file = "of a form", fileName = "a.txt", target = `/${bucket}`, cutBytes = 0 } = plan;
  const boundary = "----formBoundary7MA4YWxk";
  const texts = Object.entries({ ...signedFields(bucket, plan), ...fields }).map(
    ([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const before = `${texts.join("")}--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${fileName}"\r\nContent-Type: text/plain\r\n\r\n`;
  const whole = Buffer.concat([Buffer.from(before), Buffer.from(file), Buffer.from(`\r\n--${boundary}--\r\n`)]);
  const body = whole.subarray(0, whole.length - cutBytes);
  const headers = { host: address, "content-type": `multipart/form-data; boundary=${boundary}`, ...plan.headers };
  return send(address, { method: "POST", target, headers, body });
}
