// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32c, MemoryObjectData, type MemoryDataOptions } from "./memory-object-data.ts";
import {
  oidOf,
  parseOid,
  type ObjectData,
  type Oid,
  type OidRange,
  type BlobDescription,
  type BlobState,
  type BlobWriter,
} from "@concord/ports";
import { failedCases } from "./contract.ts";
import { OBJECT_DATA_CASES, objectDataContract, type ObjectDataSubject } from "./object-data-contract.ts";

function subjectOf(make: (memory: MemoryObjectData) => ObjectData, options: MemoryDataOptions = {}): () => Promise<ObjectDataSubject> {
  return async () => {
    const memory = new MemoryObjectData(options);
    return {
      data: make(memory),
      checksum: crc32c,
      crash: async () => memory.crash(),
      damage: async (oid, at) => memory.damage(oid, at),
    };
  };
}

/** A correct store to inherit the other methods of a fault from. */
class Delegate implements ObjectData {
  readonly memory: MemoryObjectData;

  constructor(memory: MemoryObjectData) {
    this.memory = memory;
  }

  create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    return this.memory.create(oid, description);
  }

  read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    return this.memory.read(oid, offset, lengthBytes);
  }

  inspect(oid: Oid): Promise<BlobState> {
    return this.memory.inspect(oid);
  }

  remove(oid: Oid): Promise<boolean> {
    return this.memory.remove(oid);
  }

  list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    return this.memory.list({ epoch, fromSequence, limit });
  }

  epochs(): Promise<readonly number[]> {
    return this.memory.epochs();
  }

  closeEpoch(epoch: number): Promise<void> {
    return this.memory.closeEpoch(epoch);
  }

  releaseEpochs(below: number): Promise<void> {
    return this.memory.releaseEpochs(below);
  }
}

class Overwrites extends Delegate {
  override async create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    await this.memory.remove(oid);
    return this.memory.create(oid, description);
  }
}

class ReadsUnsealedOnes extends Delegate {
  override async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    const found = this.memory.contents().find((blob) => blob.oid === oid);
    if (found !== undefined) yield found.bytes.slice(offset, offset + lengthBytes);
  }
}

class DoesNotVerify extends Delegate {
  override async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    const found = this.memory.contents().find((blob) => blob.oid === oid);
    if (found?.state.kind !== "sealed" || offset + lengthBytes > found.bytes.length) yield* this.memory.read(oid, offset, lengthBytes);
    else yield found.bytes.slice(offset, offset + lengthBytes);
  }
}

class EndsShort extends Delegate {
  override async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    const state = await this.memory.inspect(oid);
    const length = state.kind === "sealed" ? Math.min(lengthBytes, Math.max(0, state.sealed.lengthBytes - offset)) : lengthBytes;
    yield* this.memory.read(oid, Math.min(offset, state.kind === "sealed" ? state.sealed.lengthBytes : offset), length);
  }
}

class RangesAreOffByOne extends Delegate {
  override read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    return this.memory.read(oid, offset >= 262_144 && lengthBytes > 0 ? offset - 1 : offset, lengthBytes);
  }
}

class AbsentRemoveFails extends Delegate {
  override async remove(oid: Oid): Promise<boolean> {
    assert.ok(await this.memory.remove(oid));
    return true;
  }
}

class ClosesNothing extends Delegate {
  override closeEpoch(): Promise<void> {
    return Promise.resolve();
  }
}

class ClosesOnlyEpochsWithBlobs extends Delegate {
  override async closeEpoch(epoch: number): Promise<void> {
    if ((await this.memory.list({ epoch, fromSequence: 0, limit: 1 })).length > 0) await this.memory.closeEpoch(epoch);
  }
}

class ClosesByEmptying extends Delegate {
  override async closeEpoch(epoch: number): Promise<void> {
    for (const oid of await this.memory.list({ epoch, fromSequence: 0, limit: 1000 })) await this.memory.remove(oid);
    await this.memory.closeEpoch(epoch);
  }
}

class ListsOnlySealedOnes extends Delegate {
  override async list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    const listed: Oid[] = [];
    for (const oid of await this.memory.list({ epoch, fromSequence, limit }))
      if ((await this.memory.inspect(oid)).kind === "sealed") listed.push(oid);
    return listed;
  }
}

class ListsByLowestByte extends Delegate {
  override async list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    const listed = await this.memory.list({ epoch, fromSequence, limit: 1000 });
    return listed.toSorted((left, right) => (parseOid(left).sequence & 255) - (parseOid(right).sequence & 255)).slice(0, limit);
  }
}

class ListsBehindFrom extends Delegate {
  override list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    return this.memory.list({ epoch, fromSequence: fromSequence === 0 ? 0 : fromSequence + 1, limit });
  }
}

/** A fault of the writer: everything else is the reference's. */
abstract class WriterFault extends Delegate {
  override async create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    return this.writer(await this.memory.create(oid, description), oid);
  }

  protected abstract writer(correct: BlobWriter, oid: Oid): BlobWriter;
}

class KeepsTheCallersBuffers extends WriterFault {
  protected override writer(correct: BlobWriter): BlobWriter {
    const parts: Uint8Array[] = [];
    return {
      write: async (bytes) => void parts.push(bytes),
      seal: async () => {
        for (const part of parts) await correct.write(part);
        return correct.seal();
      },
      abandon: () => correct.abandon(),
    };
  }
}

class AbandonRemovesNothingButSeals extends WriterFault {
  protected override writer(correct: BlobWriter): BlobWriter {
    return { write: (bytes) => correct.write(bytes), seal: () => correct.seal(), abandon: async () => void (await correct.seal()) };
  }
}

class SealsWhatIsClosed extends WriterFault {
  protected override writer(correct: BlobWriter, oid: Oid): BlobWriter {
    return {
      write: (bytes) => correct.write(bytes),
      abandon: () => correct.abandon(),
      seal: () =>
        correct.seal().catch(() => {
          const found = this.memory.contents().find((blob) => blob.oid === oid);
          return { lengthBytes: found?.bytes.length ?? 0, checksum: crc32c(found?.bytes ?? new Uint8Array()) };
        }),
    };
  }
}

class ForgetsParts extends Delegate {
  override create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    return this.memory.create(oid, { ...description, part: undefined });
  }
}

class MixesEpochs extends Delegate {
  override create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    return this.memory.create(oidOf(1, parseOid(oid).sequence), description);
  }
}

objectDataContract(
  test,
  subjectOf((memory) => memory),
);
objectDataContract(
  (name, run) => test(`found by its description from the seal on: ${name}`, run),
  subjectOf((memory) => memory, { describedAt: "seal" }),
);

test("ObjectData contract: size: at least 50 cases", () => assert.ok(OBJECT_DATA_CASES.length >= 50, `${OBJECT_DATA_CASES.length}`));

const FAULTS = [
  Overwrites,
  ReadsUnsealedOnes,
  DoesNotVerify,
  EndsShort,
  RangesAreOffByOne,
  AbsentRemoveFails,
  ClosesNothing,
  ClosesOnlyEpochsWithBlobs,
  ClosesByEmptying,
  ListsOnlySealedOnes,
  ListsByLowestByte,
  ListsBehindFrom,
  KeepsTheCallersBuffers,
  AbandonRemovesNothingButSeals,
  SealsWhatIsClosed,
  ForgetsParts,
  MixesEpochs,
];

for (const Fault of FAULTS) {
  test(`ObjectData contract: seeded fault ${Fault.name}: found`, async () => {
    const failed = await failedCases(
      OBJECT_DATA_CASES,
      subjectOf((memory) => new Fault(memory), { describedAt: "seal" }),
    );
    assert.notDeepEqual(failed, []);
  });
}

/** What a crash leaves, seeded wrong: no class can say it. */
const CRASH_FAULTS: Readonly<Record<string, (memory: MemoryObjectData) => Promise<ObjectData>>> = {
  "a seal is not durable": async (memory) => {
    const left = memory.crash();
    for (const { oid } of left.contents()) await left.remove(oid);
    return left;
  },
  "a closed epoch is open again": async (memory) => {
    const left = new MemoryObjectData();
    for (const { oid, state, bytes } of memory.contents()) {
      if (state.kind !== "sealed") continue;
      const writer = await left.create(oid, state.description);
      await writer.write(bytes);
      await writer.seal();
    }
    return left;
  },
  "a torn blob counts as sealed": async (memory) => {
    for (const { oid, state, bytes } of memory.contents()) {
      if (state.kind !== "open") continue;
      await memory.remove(oid);
      const writer = await memory.create(oid, { bucket: "", key: "", part: undefined, guid: 0n });
      await writer.write(bytes.subarray(0, 1000));
      await writer.seal();
    }
    return memory.crash();
  },
};

for (const [name, crash] of Object.entries(CRASH_FAULTS)) {
  test(`ObjectData contract: seeded fault ${name}: found`, async () => {
    const open = async (): Promise<ObjectDataSubject> => {
      const memory = new MemoryObjectData();
      return { data: memory, checksum: crc32c, crash: () => crash(memory), damage: async (oid, at) => memory.damage(oid, at) };
    };
    const failed = await failedCases(OBJECT_DATA_CASES, open);
    assert.ok(failed.length > 0 && failed.every((name_) => name_.startsWith("crash")), failed.join("; "));
  });
}

test("reference CRC32C: the check value of the standard", () => assert.equal(crc32c(new TextEncoder().encode("123456789")), 0xe3069283));
