// Writes docs/s3-operations.md, which takes half a minute, and libs/s3/src/api-fields.ts, which `npm run format` then lays out.
import { writeFileSync } from "node:fs";
import { API_FIELDS, apiFieldsModule } from "./api-fields.ts";
import { DOCUMENT, documentOf, recorded } from "./document.ts";
import { observeOperations } from "./observe.ts";

writeFileSync(API_FIELDS, apiFieldsModule());
writeFileSync(DOCUMENT, documentOf(await observeOperations(), recorded()));
