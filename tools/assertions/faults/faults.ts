import type { AssertionFault } from "./assertion-fault.ts";
import { TRANSACTIONS_FAULTS } from "./transactions.ts";

export const ASSERTION_FAULTS: readonly AssertionFault[] = [...TRANSACTIONS_FAULTS];
