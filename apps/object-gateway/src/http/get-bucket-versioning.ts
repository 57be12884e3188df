import type { Operation } from "./call.ts";
import { xml } from "./responses.ts";

const NEVER_ENABLED = '<?xml version="1.0" encoding="UTF-8"?>\n<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>';

/** An empty answer: buckets have no versions (yet). */
export const getBucketVersioning: Operation = async () => xml(NEVER_ENABLED);
