import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { Oid } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { BLOCK_BYTES, PART_BYTES, STRIPE_BYTES } from "./limits.ts";
import { stripeObject } from "./names.ts";
import type { RadosPool, WriteAnswer, WriteStep } from "./pool.ts";

const PARTS_PER_STRIPE = STRIPE_BYTES / PART_BYTES;
const OWNER = "owner";
const IS_WRITERS = new TextEncoder().encode("writer");
const IS_BURNT = new TextEncoder().encode("burnt");
const CHECKSUM_BYTES = 4;

const sumsName = (part: number): string => `sums.${part % PARTS_PER_STRIPE}`;

export const stripesOf = (lengthBytes: number): number => Math.ceil(lengthBytes / STRIPE_BYTES);

/** The objects that hold the bytes of blobs. A blob is a row of parts; each is written once, with the checksums of its blocks. */
export class Stripes {
  readonly #pool: RadosPool;
  readonly #checksum: Checksum;

  constructor(pool: RadosPool, checksum: Checksum) {
    this.#pool = pool;
    this.#checksum = checksum;
  }

  /** The bytes are the caller's again when the call returns. Anything but `done`: the stripe's name was burnt. */
  writePart(oid: Oid, part: number, bytes: Uint8Array): Promise<WriteAnswer> {
    const first: readonly WriteStep[] = [{ kind: "create" }, { kind: "set-attribute", name: OWNER, value: IS_WRITERS }];
    const later: readonly WriteStep[] = [{ kind: "expect-attribute", name: OWNER, value: IS_WRITERS }];
    return this.#pool.write(stripeObject(oid, Math.floor(part / PARTS_PER_STRIPE)), [
      ...(part % PARTS_PER_STRIPE === 0 ? first : later),
      { kind: "write", at: (part % PARTS_PER_STRIPE) * PART_BYTES, bytes },
      { kind: "set-attribute", name: sumsName(part), value: this.#sumsOf(bytes) },
    ]);
  }

  /** Bytes `from` to `to` of the part, which has `partBytes`. CORRUPT_DATA when a block that has some of them is not as it was written. */
  async readPart(oid: Oid, part: number, partBytes: number, from: number, to: number): Promise<Uint8Array> {
    const [first, behind] = [Math.floor(from / BLOCK_BYTES), Math.ceil(to / BLOCK_BYTES)];
    const at = first * BLOCK_BYTES;
    const expectedBytes = Math.min(behind * BLOCK_BYTES, partBytes) - at;
    const inStripe = (part % PARTS_PER_STRIPE) * PART_BYTES + at;
    const found = await this.#pool.read(stripeObject(oid, Math.floor(part / PARTS_PER_STRIPE)), inStripe, expectedBytes);
    const sums = found?.attributes.get(sumsName(part));
    if (found === undefined || sums === undefined) throw corrupt(`part ${part} of blob ${oid} is absent`);
    if (found.bytes.length !== expectedBytes || sums.length < behind * CHECKSUM_BYTES)
      throw corrupt(`part ${part} of blob ${oid} ends early`);
    const expected = new ByteReader(sums.subarray(first * CHECKSUM_BYTES));
    for (let block = 0; block < expectedBytes; block += BLOCK_BYTES)
      if (this.#checksum(found.bytes.subarray(block, block + BLOCK_BYTES)) >>> 0 !== expected.u32())
        throw corrupt(`a block of part ${part} of blob ${oid} fails its checksum`);
    return found.bytes.subarray(from - at, to - at);
  }

  async remove(oid: Oid, stripe: number): Promise<void> {
    await this.#pool.write(stripeObject(oid, stripe), [{ kind: "remove" }]);
  }

  /** Whatever its writer sends for this stripe, now on its way or later, is refused (I3). An object without bytes stays. */
  async burn(oid: Oid, stripe: number): Promise<void> {
    const burnt: WriteStep = { kind: "set-attribute", name: OWNER, value: IS_BURNT };
    await this.#pool.write(stripeObject(oid, stripe), [{ kind: "ensure" }, { kind: "empty" }, burnt]);
  }

  #sumsOf(bytes: Uint8Array): Uint8Array {
    const sums = new ByteWriter(Math.ceil(bytes.length / BLOCK_BYTES) * CHECKSUM_BYTES);
    for (let at = 0; at < bytes.length; at += BLOCK_BYTES) sums.u32(this.#checksum(bytes.subarray(at, at + BLOCK_BYTES)) >>> 0);
    return sums.finish();
  }
}
