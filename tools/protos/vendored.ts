// The contracts of others under protos/google and protos/grpc are copies without a change: an identical copy does not clash with the
// one a language ships. protos/vendored.json has the source and hash of each.
import { createHash } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const LIST = "vendored.json";

/** Vendored files of the contracts in `folder` that are changed, missing or unlisted. */
export function vendoredProblems(folder: string): string[] {
  const listed = JSON.parse(readFileSync(join(folder, LIST), "utf8")) as Record<string, { readonly from: string; readonly sha256: string }>;
  const present = globSync("{google,grpc}/**/*.proto", { cwd: folder });
  const unlisted = present.filter((file) => !(file in listed)).map((file) => `${file}: not in ${LIST}`);
  const changed = Object.entries(listed).flatMap(([file, { from, sha256 }]) => {
    if (!present.includes(file)) return [`${file}: in ${LIST}, but missing`];
    const found = createHash("sha256")
      .update(readFileSync(join(folder, file)))
      .digest("hex");
    return found === sha256 ? [] : [`${file}: differs from the file of ${from}`];
  });
  return [...unlisted, ...changed];
}
