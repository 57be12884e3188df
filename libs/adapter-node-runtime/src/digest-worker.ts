// The thread that hashes bodies.
import { createHash } from "node:crypto";
import { parentPort } from "node:worker_threads";
import { crcStream } from "@concord/checksums";
import { assert, type DigestName } from "@concord/runtime";
import type { DigestInput, DigestOutput } from "./digest-messages.ts";

interface Digest {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}

const bodies = new Map<number, ReadonlyMap<DigestName, Digest>>();
const tell = (output: DigestOutput): void => parentPort!.postMessage(output);

parentPort!.on("message", (input: DigestInput) => {
  if (input.kind === "begin") {
    bodies.set(input.body, new Map(input.names.map((name) => [name, digestOf(name)])));
    return;
  }
  const body = bodies.get(input.body);
  assert(body !== undefined, "what is added to a body comes between its begin and its end");
  if (input.kind === "add") {
    const bytes = new Uint8Array(input.memory, 0, input.length);
    for (const digest of body.values()) digest.update(bytes);
    tell({ kind: "added", body: input.body });
    return;
  }
  bodies.delete(input.body);
  if (input.kind === "forget") return;
  const digests = new Map([...body].map(([name, digest]) => [name, Uint8Array.from(digest.digest())]));
  tell({ kind: "digests", body: input.body, digests });
});

function digestOf(name: DigestName): Digest {
  return name === "CRC32" || name === "CRC32C" || name === "CRC64NVME" ? crcStream(name) : createHash(name);
}
