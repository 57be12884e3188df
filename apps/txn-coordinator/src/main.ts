import { nodeMachine, tuneV8 } from "@concord/adapter-node-runtime";
import { runServer, ServerProgram, settingsOf } from "@concord/server";
import { COORDINATOR_LIST, endWithListCommand, listCommandOf, listUsage } from "@concord/member-lists";
import { composeTxnCoordinator, TXN_COORDINATOR_METRICS, txnCoordinatorSchema } from "./index.ts";

tuneV8();

const { command, process: configured } = listCommandOf(COORDINATOR_LIST, process);
if (process.argv[2] === "--help") console.log(listUsage(COORDINATOR_LIST));
const settings = settingsOf("txn-coordinator", txnCoordinatorSchema, import.meta.dirname, configured);
const { config } = settings;
const program = new ServerProgram({ ...settings, definitions: TXN_COORDINATOR_METRICS, env: process.env, machine: nodeMachine });
const { environment, onFailed } = program;
if (command !== undefined) {
  const { coordinators, listenAddress, operatorToken, coordinatorToken } = config;
  const addresses = coordinators.length > 0 ? coordinators.map(({ address }) => address) : [listenAddress];
  const token = operatorToken ?? coordinatorToken;
  await endWithListCommand(command, { ...environment, list: COORDINATOR_LIST, addresses, token, process });
}
const service = composeTxnCoordinator(config, { environment, onFailed });
const admin = { pages: { "/transactions": async () => service.transactions() } };
await runServer(program, async () => ({ name: "the coordinator", service, admin }), process);
