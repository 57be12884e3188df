// S3 over TLS: the real program with a certificate of its own, by the official client.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { Agent } from "node:https";
import { join } from "node:path";
import { test } from "node:test";
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { ANN } from "./test/gateway.ts";
import { newFolder, start } from "./test/program.ts";

test("https: signed requests, a customer's key, and policies that ask for TLS; without TLS nothing is answered", async () => {
  const folder = await newFolder();
  const [certificate, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", [...request, "-keyout", key, "-out", certificate, ...named], { stdio: "pipe" });
  const program = await start(join(folder, "data"), ["--tls-certificate-file", certificate, "--tls-key-file", key]);
  const { child, httpAddress: address } = program;
  const httpsAgent = new Agent({ ca: await readFile(certificate) });
  const options = { region: "us-east-1", credentials: ANN, forcePathStyle: true, requestHandler: { httpsAgent } };
  const s3 = new S3Client({ endpoint: `https://${address}`, ...options });
  const Bucket = "secure";
  await s3.send(new CreateBucketCommand({ Bucket }));
  const rule = { Effect: "Deny", Principal: "*", Action: "s3:*", Resource: [`arn:aws:s3:::${Bucket}`, `arn:aws:s3:::${Bucket}/*`] };
  const Statement = [{ ...rule, Condition: { Bool: { "aws:SecureTransport": "false" } } }];
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy: JSON.stringify({ Version: "2012-10-17", Statement }) }));
  const customer = { SSECustomerAlgorithm: "AES256", SSECustomerKey: Buffer.alloc(32, 7).toString("base64") };
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "over TLS", ...customer }));
  const read = await s3.send(new GetObjectCommand({ Bucket, Key: "k", ...customer }));
  assert.equal(await read.Body!.transformToString(), "over TLS");
  await assert.rejects(s3.send(new HeadObjectCommand({ Bucket, Key: "k" })));
  await assert.rejects(fetch(`http://${address}/${Bucket}/k`));
  s3.destroy();
  httpsAgent.destroy();
  child.kill("SIGTERM");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});
