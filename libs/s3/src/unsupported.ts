// What we do not do is refused, never ignored: a client that asked for encryption must not believe it has it.
import { S3Error } from "./errors.ts";
import type { Fields } from "./fields.ts";

/** Headers whose meaning is not implemented, with the values that ask for nothing we do not do anyway. */
const HEADERS: readonly (readonly [pattern: RegExp, harmless: readonly string[]])[] = [
  [/^x-amz-storage-class$/, ["STANDARD"]],
  [/^x-amz-write-offset-bytes$/, []],
  [/^x-amz-mfa$/, []],
  [/^x-amz-rename-source/, []],
];

/** NotImplemented for a header that implies what we do not do. */
export function refuseUnsupported(headers: Fields): void {
  for (const [name, value] of headers.entries) {
    if (!name.startsWith("x-amz-")) continue;
    const rule = HEADERS.find(([pattern]) => pattern.test(name));
    if (rule !== undefined && !rule[1].includes(value)) {
      throw new S3Error("NotImplemented", "A header you provided implies functionality that is not implemented", {
        elements: { Header: name },
      });
    }
  }
}
