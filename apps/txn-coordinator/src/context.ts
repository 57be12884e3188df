import type { RowStore } from "@concord/ports";
import type { SchemaCache, PageTokens } from "@concord/schema";
import type { Channel, Environment } from "@concord/runtime";
import type { TxnCoordinatorConfig } from "./config.ts";
import type { Groups } from "./groups/groups.ts";
import type { Peers } from "./groups/peers.ts";
import type { IdGenerator } from "./ids/id-generator.ts";
import type { ParsedStatements } from "./schema/parsed-statements.ts";

/** What the handlers share. */
export interface Context {
  readonly config: TxnCoordinatorConfig;
  readonly environment: Environment;
  readonly groups: Groups;
  readonly rows: RowStore;
  readonly peers: Peers;
  readonly schema: SchemaCache;
  readonly statements: ParsedStatements;
  readonly pageTokens: PageTokens;
  readonly ids: IdGenerator;
  /** Another coordinator: calls for the system group's master are passed on to it. */
  readonly coordinatorAt: (address: string) => Channel;
}
