// What we do not do is refused, never ignored: a client that asked for encryption must not believe it has it.
import { S3Error } from "./errors.ts";
import type { Fields } from "./fields.ts";

/** Headers whose meaning is not implemented, with the values that ask for nothing we do not do anyway. */
const HEADERS: readonly (readonly [pattern: RegExp, harmless: readonly string[]])[] = [
  [/^x-amz-server-side-encryption/, []],
  [/^x-amz-copy-source-server-side-encryption/, []],
  [/^x-amz-object-lock-/, []],
  [/^x-amz-bucket-object-lock-enabled$/, ["false", "False"]],
  [/^x-amz-bypass-governance-retention$/, ["false", "False"]],
  [/^x-amz-grant-/, []],
  [/^x-amz-acl$/, ["private", "bucket-owner-full-control"]],
  [/^x-amz-storage-class$/, ["STANDARD"]],
  [/^x-amz-website-redirect-location$/, []],
  [/^x-amz-write-offset-bytes$/, []],
  [/^x-amz-mfa$/, []],
  [/^x-amz-object-ownership$/, ["BucketOwnerEnforced"]],
  [/^x-amz-rename-source/, []],
];

/** NotImplemented for a header that implies what we do not do; AccessControlListNotSupported for grants. */
export function refuseUnsupported(headers: Fields): void {
  for (const [name, value] of headers.entries) {
    if (!name.startsWith("x-amz-")) continue;
    const rule = HEADERS.find(([pattern]) => pattern.test(name));
    if (rule !== undefined && !rule[1].includes(value)) {
      if (isOfAcl(name)) throw new S3Error("AccessControlListNotSupported", "The bucket does not allow ACLs: use a bucket policy.");
      throw new S3Error("NotImplemented", "A header you provided implies functionality that is not implemented", {
        elements: { Header: name },
      });
    }
  }
}

/** Buckets have no ACLs but their owner's, which is what S3 answers then. */
const isOfAcl = (name: string): boolean => name === "x-amz-acl" || name.startsWith("x-amz-grant-");
