// Writes docs/s3-operations.md: takes half a minute.
import { writeFileSync } from "node:fs";
import { DOCUMENT, documentOf, recorded } from "./document.ts";
import { observeOperations } from "./observe.ts";

writeFileSync(DOCUMENT, documentOf(await observeOperations(), recorded()));
