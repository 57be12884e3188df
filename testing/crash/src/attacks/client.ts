// The client as the workspace has it: what an attack needs of it is the same in the package.
import { connect, ConcordClientError, typed } from "@concord/client";
import type { Client } from "@concord/constellation";

export const client: Client = { connect, ConcordClientError, typed };
