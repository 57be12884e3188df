// Every contract names the package of its generated code, by one rule for all of them: buf lint only sees that the files of one
// package agree with each other.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Where published generated code would live; see "Other languages" of protos/README.md. */
const GO_MODULE = "github.com/concord-db/concord/gen/go";
const JAVA_PREFIX = "io.github.concorddb";

/** The option lines of a contract, such as "concord/dedup/v1/ingest.proto". */
function languageOptions(file: string): string[] {
  const folder = dirname(file);
  const [name = "", version = ""] = folder.split("/").slice(1);
  const pascal = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
  return [
    `option csharp_namespace = "Concord.${pascal(name)}.${pascal(version)}";`,
    `option go_package = "${GO_MODULE}/${folder};${name}${version}";`,
    "option java_multiple_files = true;",
    `option java_package = "${JAVA_PREFIX}.${name}.${version}";`,
  ];
}

/** Contracts of ours below `folder`, or of `only` in it, with an option missing or another than the rule's. */
export function languageProblems(folder: string, only = "concord"): string[] {
  return globSync(`${only}/**/*.proto`, { cwd: folder }).flatMap((file) => {
    const found = readFileSync(join(folder, file), "utf8").match(/^option .*$/gm) ?? [];
    const expected = languageOptions(file);
    return found.join("\n") === expected.join("\n") ? [] : [`${file}: its options are not exactly:\n${expected.join("\n")}`];
  });
}
