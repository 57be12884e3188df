import type { AssertionFault } from "./assertion-fault.ts";
import { DEDUP_FAULTS } from "./dedup.ts";
import { LOGGED_BATCH_FAULTS } from "./logged-batch.ts";
import { OBJECTS_BUCKETS_FAULTS } from "./objects-buckets.ts";
import { OBJECTS_ROWS_FAULTS } from "./objects-rows.ts";
import { OBJECTS_FAULTS } from "./objects.ts";
import { OBJECTS_PASSES_FAULTS } from "./objects-passes.ts";
import { OBJECTS_UPLOADS_FAULTS } from "./objects-uploads.ts";
import { STORE_FAULTS } from "./store.ts";
import { TRANSACTIONS_FAULTS } from "./transactions.ts";

export const ASSERTION_FAULTS: readonly AssertionFault[] = [
  ...DEDUP_FAULTS,
  ...LOGGED_BATCH_FAULTS,
  ...OBJECTS_FAULTS,
  ...OBJECTS_BUCKETS_FAULTS,
  ...OBJECTS_ROWS_FAULTS,
  ...OBJECTS_PASSES_FAULTS,
  ...OBJECTS_UPLOADS_FAULTS,
  ...STORE_FAULTS,
  ...TRANSACTIONS_FAULTS,
];
