// A load client that costs little: requests over kept-alive connections, signed with SigV4 without hashing the body.
import { createHash, createHmac } from "node:crypto";
import { Agent, request } from "node:http";
import type { AccessKey } from "@concord/constellation";

const REGION = "us-east-1";
const UNSIGNED = "UNSIGNED-PAYLOAD";
const SIGNED_HEADERS = "host;x-amz-content-sha256;x-amz-date";

export interface S3Answer {
  readonly status: number;
  readonly bytes: number;
}

export class S3Requests {
  readonly #host: string;
  readonly #key: AccessKey;
  readonly #agent = new Agent({ keepAlive: true, noDelay: true });
  #signingDay = "";
  #signingKey: Buffer = Buffer.alloc(0);

  constructor(endpoint: string, key: AccessKey) {
    this.#host = new URL(endpoint).host;
    this.#key = key;
  }

  /** `path`: with its query in canonical form. Resolves when the whole answer has arrived; its bytes are counted and dropped. Rejects on any status but 2xx. */
  send(method: string, path: string, body?: Buffer): Promise<S3Answer> {
    const headers = { ...this.#sign(method, path), ...(body === undefined ? {} : { "content-length": body.length }) };
    return new Promise((resolve, reject) => {
      const [host, port] = this.#host.split(":");
      const sent = request({ agent: this.#agent, host, port, method, path, headers }, (response) => {
        let bytes = 0;
        const said: Buffer[] = [];
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          if (response.statusCode! >= 300) said.push(chunk);
        });
        response.on("error", reject);
        response.on("end", () => {
          const status = response.statusCode!;
          if (status < 300) resolve({ status, bytes });
          else reject(new Error(`${method} ${path}: ${status} ${Buffer.concat(said).toString()}`));
        });
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }

  #sign(method: string, path: string): Record<string, string> {
    const stamp = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
    const day = stamp.slice(0, 8);
    const scope = `${day}/${REGION}/s3/aws4_request`;
    const [resource, query = ""] = path.split("?");
    const canonical = `${method}\n${resource}\n${query}\nhost:${this.#host}\nx-amz-content-sha256:${UNSIGNED}\nx-amz-date:${stamp}\n\n${SIGNED_HEADERS}\n${UNSIGNED}`;
    const text = `AWS4-HMAC-SHA256\n${stamp}\n${scope}\n${createHash("sha256").update(canonical).digest("hex")}`;
    const signature = createHmac("sha256", this.#keyOf(day)).update(text).digest("hex");
    const credential = `${this.#key.accessKeyId}/${scope}`;
    return {
      host: this.#host,
      "x-amz-date": stamp,
      "x-amz-content-sha256": UNSIGNED,
      authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${SIGNED_HEADERS}, Signature=${signature}`,
    };
  }

  #keyOf(day: string): Buffer {
    if (day !== this.#signingDay) {
      const chain = [day, REGION, "s3", "aws4_request"];
      this.#signingKey = chain.reduce(
        (key, part) => createHmac("sha256", key).update(part).digest(),
        Buffer.from(`AWS4${this.#key.secretAccessKey}`),
      );
      this.#signingDay = day;
    }
    return this.#signingKey;
  }
}
