// `npm run protos:release`: makes today's contracts the ones that later changes must not break. Prints what the last release's
// clients lose by it; a release that takes something away is a decision, not an accident.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { buf, lintProblems } from "./contracts.ts";
import { PROTOS_FOLDER, RELEASED_IMAGE } from "./proto-files.ts";

const image = join(PROTOS_FOLDER, RELEASED_IMAGE);
const lint = lintProblems(PROTOS_FOLDER);
const breaks = existsSync(image) ? buf(PROTOS_FOLDER, "breaking", "--against", RELEASED_IMAGE) : [];
for (const line of [...lint, ...breaks]) console.log(line);
if (lint.length > 0) {
  console.error("not released: the contracts are not lint clean");
  process.exitCode = 1;
} else {
  const failures = buf(PROTOS_FOLDER, "build", "--exclude-source-info", "-o", RELEASED_IMAGE);
  for (const line of failures) console.error(line);
  process.exitCode = failures.length === 0 ? 0 : 1;
  if (failures.length === 0) console.log(`released ${image}; breaking changes against the last release: ${breaks.length}`);
}
