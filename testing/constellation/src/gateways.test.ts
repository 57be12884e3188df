// Two gateways as `npm start -- --gateways 2` runs them: rows in transactions, blobs in one folder, every process a real one.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { s3Client } from "./clients/s3.ts";
import { startConstellation, type Constellation } from "./constellation.ts";

const ATTEMPTS = 5;
const LARGE = Buffer.alloc(300 * 1024, "large ");
let folder: string;
let constellation: Constellation;
let gateways: readonly [S3Client, S3Client];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-gateways-"));
  constellation = await startConstellation({
    dataFolder: folder,
    portBase: "free",
    members: { "storage-proxy": 3, "txn-coordinator": 3, "object-gateway": 2 },
  });
  const [first, second] = constellation.s3Endpoints.map((endpoint) => s3Client(endpoint, constellation.tokens.accessKeys[0]!, ATTEMPTS));
  gateways = [first!, second!];
});

after(async () => {
  for (const gateway of gateways ?? []) gateway.destroy();
  await constellation?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function read(gateway: S3Client, Key: string): Promise<Buffer> {
  const { Body } = await gateway.send(new GetObjectCommand({ Bucket: "shared", Key }));
  return Buffer.from(await Body!.transformToByteArray());
}

test("[OG13, OGD16] two gateways over transactions: what one stores the other reads, lists, replaces and deletes; one dies: the other goes on", async () => {
  const [first, second] = gateways;
  await first.send(new CreateBucketCommand({ Bucket: "shared" }));
  await first.send(new PutObjectCommand({ Bucket: "shared", Key: "small", Body: "from the first" }));
  await second.send(new PutObjectCommand({ Bucket: "shared", Key: "large", Body: LARGE }));
  assert.equal((await read(second, "small")).toString(), "from the first");
  assert.deepEqual(await read(first, "large"), LARGE);
  await second.send(new PutObjectCommand({ Bucket: "shared", Key: "small", Body: "from the second" }));
  assert.equal((await read(first, "small")).toString(), "from the second");
  await constellation.kill("object-gateway-1");
  await second.send(new DeleteObjectCommand({ Bucket: "shared", Key: "small" }));
  assert.deepEqual(await read(second, "large"), LARGE);
  await constellation.restart("object-gateway-1");
  const listed = await first.send(new ListObjectsV2Command({ Bucket: "shared" }));
  assert.deepEqual(
    listed.Contents?.map(({ Key }) => Key),
    ["large"],
  );
});
